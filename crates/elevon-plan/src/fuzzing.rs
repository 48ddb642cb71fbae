//! Checks of the fuzzer that use what other crates cannot see. They are no part of the interface.

#[cfg(test)]
#[path = "../../../fuzz/checks/corpus.rs"]
mod corpus;
#[path = "../../../fuzz/checks/cpu_cost.rs"]
mod of_cpu_cost;
#[path = "../../../fuzz/checks/memory.rs"]
mod of_memory;
#[path = "../../../fuzz/checks/vs.rs"]
mod of_vs;

/// Checks bytes as a scheduler, a line end, and `--cpu-cost`.
pub fn cpu_cost(data: &[u8]) {
    of_cpu_cost::cpu_cost(data);
}

/// Checks bytes as `--memory` or `--cache`, with lines of `--set`.
pub fn memory(data: &[u8]) {
    of_memory::memory(data);
}

/// Checks bytes as `--vs`.
pub fn vs(data: &[u8]) {
    of_vs::vs(data);
}

#[cfg(test)]
mod tests {
    use super::corpus;

    #[test]
    fn the_corpora_of_options_hold() {
        corpus::each("cpu_cost", 6, 1, b"09=,\n", super::cpu_cost);
        corpus::each("memory", 10, 1, b"09=,\n", super::memory);
        corpus::each("vs", 8, 1, b"-='\n", super::vs);
    }
}
