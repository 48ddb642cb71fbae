//! Runs the sections of a group again in another order, to find out what those do that wait for the
//! lock.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Number of orders that are tried.
const ORDERS: u64 = 4;
/// One after another the sections must take longer than they did by more than this part, or nothing
/// shows that they were not done so.
const MIN_DELAY_PART: u128 = 50;

/// What a process did before a section, other than waiting for the lock, and how long the section
/// was; in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    pub(super) before: u64,
    pub(super) within: u64,
}

/// Returns true if the sections of a group take more nearly as long as they did if all that wait
/// begin theirs together, as in a group commit, than if each waits for its turn, with which they
/// would take too long.
///
/// A database that writes its log so writes what the others that wait have for it, too, so that
/// they need no section of their own. Those that the trace shows waited for one section at most,
/// which no queue of waiting processes does. Turns are put in another order, for in their own they
/// fit together as in the trace whatever the rule is.
///
/// `took` is the sum of the nanoseconds from the first section of each process to the end of its
/// last one.
pub(super) fn is_together(turns: &[Vec<Turn>], took: u128, hand_over: u64) -> bool {
    let [in_turn, together] = [false, true].map(|is_together| {
        (0..ORDERS).map(|order| run(&shuffled(turns, order), hand_over, is_together)).sum::<u128>()
            / u128::from(ORDERS)
    });
    in_turn > took + took / MIN_DELAY_PART && together.abs_diff(took) < in_turn - took
}

/// Returns the turns of each process with what is before and what is within each in another order.
fn shuffled(turns: &[Vec<Turn>], order: u64) -> Vec<Vec<Turn>> {
    let mut place = order.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut sorted_by_chance = |times: &mut dyn Iterator<Item = u64>| -> Vec<u64> {
        let mut placed: Vec<(u64, u64)> = times
            .map(|time| {
                place = place
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                (place >> 20, time)
            })
            .collect();
        placed.sort_unstable();
        placed.into_iter().map(|(_, time)| time).collect()
    };
    let of_process = |turns: &Vec<Turn>| {
        let before = sorted_by_chance(&mut turns.iter().map(|turn| turn.before));
        let within = sorted_by_chance(&mut turns.iter().map(|turn| turn.within));
        before.into_iter().zip(within).map(|(before, within)| Turn { before, within }).collect()
    };
    turns.iter().map(of_process).collect()
}

/// Returns the sum of the times at which the processes end their last sections.
fn run(turns: &[Vec<Turn>], hand_over: u64, is_together: bool) -> u128 {
    // When each process wants the lock for its next section.
    let mut wants: BinaryHeap<Reverse<(u128, usize, usize)>> = BinaryHeap::new();
    for (process, turns) in turns.iter().enumerate() {
        wants.extend(turns.first().map(|turn| Reverse((turn.before.into(), process, 0))));
    }
    let (mut free, mut sum): (u128, u128) = (0, 0);
    while let Some(&Reverse((first, ..))) = wants.peek() {
        let begin = if first < free { free + u128::from(hand_over) } else { first };
        // One, or all that want it by then.
        while let Some(Reverse((_, process, turn))) = wants.pop() {
            let end = begin + u128::from(turns[process][turn].within);
            free = free.max(end);
            match turns[process].get(turn + 1) {
                Some(next) => {
                    wants.push(Reverse((end + u128::from(next.before), process, turn + 1)));
                }
                None => sum += end,
            }
            let is_next_there = wants.peek().is_some_and(|Reverse((want, ..))| *want <= begin);
            if !is_together || !is_next_there {
                break;
            }
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns(of_each: &[&[(u64, u64)]]) -> Vec<Vec<Turn>> {
        let of_process = |turns: &&[(u64, u64)]| {
            turns.iter().map(|&(before, within)| Turn { before, within }).collect()
        };
        of_each.iter().map(of_process).collect()
    }

    #[test]
    fn sections_are_one_at_a_time_or_together() {
        let all = turns(&[&[(10, 100), (500, 100)], &[(20, 50)], &[(30, 60)]]);
        // 10 to 110, then 115 to 165 and 170 to 230; again at 610.
        assert_eq!(run(&all, 5, false), 710 + 165 + 230);
        // The two that wait both begin at 115.
        assert_eq!(run(&all, 5, true), 710 + 165 + 175);
    }

    #[test]
    fn another_order_has_the_same_times() {
        let all = turns(&[&[(1, 10), (2, 20), (3, 30), (4, 40), (5, 50)]]);
        let mut orders: Vec<Vec<u64>> = (0..ORDERS)
            .map(|order| shuffled(&all, order)[0].iter().map(|turn| turn.before).collect())
            .collect();
        assert!(orders.iter().any(|order| !order.is_sorted()));
        orders.iter_mut().for_each(|order| order.sort_unstable());
        assert_eq!(orders, vec![vec![1, 2, 3, 4, 5]; ORDERS as usize]);
    }
}
