//! Tests how much a job with several sizes moves.

use super::*;

/// As with fio 3.33, which then moved up to one block more than `size`.
#[test]
fn the_io_that_reaches_the_size_is_whole_where_there_is_space() {
    let split = BlockSizes::Split(vec![(512, 50), (256 * 1024, 50)]);
    let seen = |edit: &dyn Fn(&mut JobSpec)| {
        let mut spec = job(|_| ());
        spec.blocks.sizes = [split.clone(), split.clone(), split.clone()];
        edit(&mut spec);
        let lengths = Bench::new(&spec).run().seen.iter().map(|s| s.len).collect::<Vec<_>>();
        (lengths.len(), lengths.iter().sum::<u64>())
    };
    let one_pass = seen(&|_| ());
    assert!(
        one_pass.0 > 50 && one_pass.1 == 1 << 20,
        "at the end of its region it draws until a size fits: {one_pass:?}"
    );
    for (what, (ios, bytes)) in [
        ("a mix", seen(&|s| s.rw.write = true)),
        (
            "random without the map",
            seen(&|s| {
                s.rw.random = true;
                s.random.norandommap = true;
            }),
        ),
    ] {
        assert!(
            ios < 30 && (1 << 20..(1 << 20) + 256 * 1024).contains(&bytes),
            "{what}: {ios} I/Os, {bytes} bytes"
        );
    }
}
