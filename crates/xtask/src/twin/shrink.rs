//! Makes a job that differs as small as it can be and still differ.

use super::both::{judge_cases, worst_error};
use super::case::{Case, Engine};
use super::figures::HOLDS;

/// Rounds of steps, of which each halves something or leaves something out.
const MOST_ROUNDS: usize = 40;

/// Shrinks a case on a kernel, and prints and returns what is left.
///
/// # Errors
/// The kernel does not run.
pub fn shrink(case: &Case, kernel: &str) -> Result<Case, String> {
    let mut smallest = case.clone();
    let mut is_changed = true;
    let mut rounds = 0;
    while is_changed && rounds < MOST_ROUNDS {
        is_changed = false;
        rounds += 1;
        let smaller = smaller(&smallest);
        for (candidate, compared) in judge_cases(&smaller, kernel)? {
            if compared.is_ok_and(|compared| worst_error(&compared.figures) > 2.0 * HOLDS) {
                smallest = candidate;
                is_changed = true;
                break;
            }
        }
    }
    println!("seed {} shrinks to: {}", case.seed, smallest.describe());
    println!("    {}", serde_json::to_string(&smallest).expect("a case is plain data"));
    Ok(smallest)
}

/// Returns cases that are smaller by one step, those that lose most first.
fn smaller(case: &Case) -> Vec<Case> {
    let mut all = Vec::new();
    let mut add = |change: &dyn Fn(&mut Case)| {
        let mut changed = case.clone();
        change(&mut changed);
        if changed != *case {
            all.push(changed);
        }
    };
    let count = case.processes.len();
    for index in (0..count).filter(|_| count > 1) {
        add(&|case| {
            let gone = case.processes.remove(index);
            case.tenants.retain(|tenant| tenant.path != gone.cgroup);
        });
    }
    add(&|case| {
        case.tenants.clear();
        case.processes.iter_mut().for_each(|process| process.cgroup.clear());
    });
    add(&|case| case.tunables.clear());
    for index in 0..case.tunables.len() {
        add(&|case| drop(case.tunables.remove(index)));
    }
    add(&|case| case.queue.retain(|(name, _)| name == "nr_requests"));
    add(&|case| case.rotational = false);
    add(&|case| case.runtime_ms = (case.runtime_ms / 2).max(1_000));
    add(&|case| case.slots = if case.slots > 8 { case.slots } else { 1 });
    add(&|case| case.slots = if case.slots > 8 { case.slots } else { case.slots.div_ceil(2) });
    for index in 0..count {
        let plain = &case.processes[index];
        add(&|case| case.processes[index].start_us %= 1_000);
        add(&|case| case.processes[index].write = false);
        add(&|case| case.processes[index].trim = false);
        add(&|case| case.processes[index].buffered = false);
        add(&|case| (case.processes[index].dsync, case.processes[index].fsync) = (false, 0));
        add(&|case| {
            let process = &mut case.processes[index];
            if !process.buffered {
                (process.think_us, process.think_blocks) = (0, 0);
            }
        });
        add(&|case| case.processes[index].random = true);
        add(&|case| case.processes[index].bs = 4096);
        add(&|case| case.processes[index].depth = 1);
        add(&|case| case.processes[index].depth = plain.depth.div_ceil(2));
        if !plain.trim && !plain.buffered {
            add(&|case| case.processes[index].engine = Engine::Libaio);
        }
        if plain.class != 2 || plain.level != 4 {
            add(&|case| (case.processes[index].class, case.processes[index].level) = (2, 4));
        }
        add(&|case| {
            if case.processes[index].class < 3 {
                case.processes[index].level = if plain.class == 1 { 0 } else { 4 };
            }
        });
    }
    all
}
