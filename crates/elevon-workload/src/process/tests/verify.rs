//! Errors that verify= finds, and content that it accepts.

use super::*;

fn verified(edit: impl FnOnce(&mut JobSpec)) -> Bench {
    let spec = job(|s| {
        writes(s);
        s.verify.method = Some(VerifyMethod::Crc32c);
        edit(s);
    });
    let mut bench = Bench::new(&spec);
    bench.memory = Some(vec![0; (START + (1 << 20)) as usize]);
    bench
}

#[test]
fn what_was_written_is_read_back() {
    for edit in [
        (|_| {}) as fn(&mut JobSpec),
        |s| deep(s, 16),
        |s| s.rw.random = true,
        |s| s.verify.method = Some(VerifyMethod::Meta),
        |s| s.verify.interval = 1024,
        |s| {
            s.verify.method = Some(VerifyMethod::Pattern);
            s.verify.pattern = vec![0xde, 0xad, 0xbe].into();
        },
    ] {
        let bench = verified(edit).run();
        assert_eq!(bench.ops(), "w".repeat(256) + &"r".repeat(256));
        assert_eq!((bench.stats().verified_bytes, bench.stats().verify_errors), (1 << 20, 0));
        assert_eq!(bench.stats().directions[0].ios, 256);
        let runtimes = [0, 1].map(|d| bench.stats().directions[d].runtime_ns);
        assert_eq!(runtimes.iter().sum::<u64>(), bench.ended(), "each direction has its phase");
    }
    let backlogs = verified(|s| s.verify.backlog = 64).run();
    assert_eq!(backlogs.ops(), ("w".repeat(64) + &"r".repeat(64)).repeat(4));
    // What the last writes leave is read back in the final pass, before which files are dropped.
    assert_eq!(backlogs.process.passes().verify, 1);
    let ends = |ios, loops| {
        verified(|s| {
            (s.verify.backlog, s.timing.number_ios, s.timing.loops) = (64, Some(ios), loops);
        })
        .run()
        .process
        .passes()
        .verify
    };
    assert_eq!((ends(64, 1), ends(65, 1), ends(63, 1), ends(128, 2)), (1, 1, 1, 2));
    assert_eq!(verified(|s| s.verify.after_write = false).run().ops(), "w".repeat(256));
    let twice = verified(|s| s.timing.loops = 2).run();
    assert_eq!((twice.stats().verified_bytes, twice.stats().verify_errors), (2 << 20, 0));
}

#[test]
fn corruption_is_found() {
    let mut first = verified(|s| s.rw.random = true).run();
    let mut memory = first.memory.take().expect("there");
    memory[(START + 5 * BLOCK + 100) as usize] ^= 1;
    // verify_only and a plain read job both find the bad block.
    for only in [true, false] {
        let mut bench = verified(|s| {
            s.rw.random = true;
            s.verify.only = only;
            if !only {
                s.rw = Rw { read: true, write: false, ..s.rw };
            }
        });
        bench.memory = Some(memory.clone());
        let bench = bench.run();
        assert_eq!(bench.ops(), "r".repeat(256));
        assert_eq!((bench.stats().verify_errors, bench.stats().error), (1, 84), "only: {only}");
        assert_eq!(bench.stats().verified_bytes, 1 << 20, "the rest is checked all the same");
    }
    let mut bench = verified(|s| {
        s.verify.only = true;
        s.verify.fatal = true;
    });
    bench.memory = Some(memory);
    assert_eq!(bench.run().seen.len(), 6, "sequential, the sixth block is bad");
}
