//! Compares mq-deadline with a trace of Linux 6.1.187 (null_blk, one hardware queue): the scheduler
//! gets the inserts of the trace and must choose the kernel's requests.
//!
//! The trace has four reads of 1028 KiB, one of 16 MiB, and 200 mixed I/Os of 4 KiB at depth 8. In
//! one part of the 16 MiB read two CPUs ran the queue at the same time, and their requests reached
//! the driver interleaved; there only the chosen requests can be compared, not their order.

use elevon_core::jiffies::Hz;
use std::collections::VecDeque;

use elevon_core::kernel::Kernel;
use elevon_core::op::Op;
use elevon_core::request::{Requests, State};
use elevon_core::sched::{MqDeadline, Scheduler, View};
use elevon_core::units::{HwQueue, Instant, RequestId, Sector, Sectors};

/// Nanoseconds, I for inserted or D for issued to the driver, operation, sector, sectors.
const TRACE: &str = include_str!("data/mq-deadline-6.1.txt");
/// When two CPUs ran the queue, in nanoseconds.
const TWO_CPUS: std::ops::Range<u64> = 88_798_110..89_016_871;

#[test]
fn chooses_what_the_kernel_chose() {
    let rules = Kernel::V6_1.rules();
    let mut requests = Requests::new(1024);
    let mut scheduler = MqDeadline::new(rules, Hz(250), 1, 128);
    let mut free: VecDeque<u32> = (0..1024).collect();
    let (mut kernel, mut ours) = (Vec::new(), Vec::new());
    let (mut kernel_of_two, mut ours_of_two) = (Vec::new(), Vec::new());
    for line in TRACE.lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        let number = |i: usize| fields[i].parse::<u64>().unwrap();
        let (now, sector) = (Instant::new(number(0)), number(3));
        if fields[1] == "I" {
            let id = RequestId(free.pop_front().unwrap());
            let request = &mut requests[id];
            request.state = State::Queued;
            request.op = if fields[2].starts_with('R') { Op::Read } else { Op::Write };
            request.sector = Sector::new(sector);
            request.sectors = Sectors::new(number(4));
            scheduler.insert(now, View { requests: &requests, rules: &rules }, id, false);
        } else {
            let view = View { requests: &requests, rules: &rules };
            let id = scheduler.dispatch(now, view, HwQueue(0)).expect("the kernel found one");
            let chosen = requests[id].sector.get();
            if TWO_CPUS.contains(&number(0)) {
                kernel_of_two.push(sector);
                ours_of_two.push(chosen);
            } else {
                kernel.push((number(0), sector));
                ours.push((number(0), chosen));
            }
            scheduler.on_finish(now, view, id);
            requests.free(id);
            free.push_back(id.0);
        }
    }
    assert_eq!((kernel.len(), kernel_of_two.len()), (306, 59));
    assert_eq!(kernel, ours);
    kernel_of_two.sort_unstable();
    ours_of_two.sort_unstable();
    assert_eq!(kernel_of_two, ours_of_two);
}
