//! `TARGET=job cargo +nightly fuzz run any fuzz/corpus/job`: a target of `cargo xtask fuzz`, led by
//! coverage.
#![no_main]

use std::sync::LazyLock;

static CHECK: LazyLock<fn(&[u8])> = LazyLock::new(|| {
    let name = std::env::var("TARGET").expect("TARGET names a target of `cargo xtask fuzz`");
    xtask::targets::of_name(&name).expect("a target of `cargo xtask fuzz`").check
});

libfuzzer_sys::fuzz_target!(|data: &[u8]| CHECK(data));
