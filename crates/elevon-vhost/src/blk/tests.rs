use super::*;

#[test]
fn the_configuration_has_its_fields_where_the_specification_puts_them() {
    let config = Config {
        capacity: 0x1122_3344_5566,
        size_max: 65536,
        seg_max: 126,
        block_size: 4096,
        physical_exponent: 3,
        min_io: 8,
        opt_io: 32,
        queues: 4,
        max_discard_sectors: 1000,
        max_discard_ranges: 16,
        discard_alignment: 8,
        max_write_zeroes_sectors: 2000,
    };
    let bytes = config.to_bytes();
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
    assert_eq!(u64::from_le_bytes(bytes[..8].try_into().expect("8 bytes")), config.capacity);
    assert_eq!([word(8), word(12), word(20)], [65536, 126, 4096]);
    assert_eq!((bytes[24], bytes[26], word(28), bytes[34]), (3, 8, 32, 4));
    assert_eq!([36, 40, 44, 48, 52].map(word), [1000, 16, 8, 2000, 1]);
    assert_eq!(bytes.len(), CONFIG_BYTES);
}

#[test]
fn a_head_has_its_kind_priority_and_sector() {
    let mut bytes = [0; HEAD_BYTES];
    (bytes[0], bytes[5], bytes[8]) = (1, 0x40, 9);
    assert_eq!(Head::parse(&bytes), Head { kind: Kind::Write, ioprio: 0x4000, sector: 9 });
    bytes[0] = 99;
    assert_eq!(Head::parse(&bytes).kind, Kind::Unknown);
}

#[test]
fn ranges_are_whole_or_refused() {
    let mut bytes = vec![0; 2 * RANGE_BYTES];
    (bytes[0], bytes[8], bytes[16], bytes[24]) = (8, 1, 16, 2);
    let ranges = [(8, 1), (16, 2)].map(|(sector, sectors)| Range { sector, sectors, flags: 0 });
    assert_eq!(Range::parse_all(&bytes), Some(ranges.to_vec()));
    assert_eq!(Range::parse_all(&bytes[..20]), None);
}
