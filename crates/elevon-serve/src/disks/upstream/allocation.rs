//! What another server says is allocated, in our blocks.

use crate::request::Extent;

/// Returns extents of whole blocks: a block is a hole, or zero, if all of it is. The rest of a
/// block behind the last extent is left out. One block is told at least: as data, if nothing was
/// said of a part of it.
pub(super) fn aligned(extents: &[Extent], block: u64) -> Vec<Extent> {
    let mut all: Vec<Extent> = Vec::new();
    let mut add = |extent: Extent| match all.last_mut() {
        Some(last) if (last.hole, last.zero) == (extent.hole, extent.zero) => {
            last.length += extent.length;
        }
        _ if extent.length > 0 => all.push(extent),
        _ => {}
    };
    // The beginning of a block that several extents share.
    let mut begun = Extent { length: 0, hole: true, zero: true };
    for extent in extents {
        let mut left = extent.length;
        if begun.length > 0 {
            let taken = left.min(block - begun.length);
            begun.length += taken;
            (begun.hole, begun.zero) = (begun.hole && extent.hole, begun.zero && extent.zero);
            left -= taken;
            if begun.length < block {
                continue;
            }
            add(begun);
        }
        add(Extent { length: left / block * block, ..*extent });
        begun = Extent { length: left % block, ..*extent };
    }
    if all.is_empty() {
        all.push(Extent { length: block, hole: false, zero: false });
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_a_hole_if_all_of_it_is() {
        let of = |extents: &[(u64, bool)]| {
            let extents: Vec<Extent> =
                extents.iter().map(|&(length, hole)| Extent { length, hole, zero: hole }).collect();
            aligned(&extents, 512)
                .iter()
                .map(|extent| (extent.length, extent.hole))
                .collect::<Vec<_>>()
        };
        assert_eq!(of(&[(1024, true), (512, false)]), [(1024, true), (512, false)]);
        assert_eq!(of(&[(1000, true), (1048, false)]), [(512, true), (1536, false)]);
        assert_eq!(of(&[(100, false), (1948, true)]), [(512, false), (1536, true)]);
        assert_eq!(
            of(&[(512, true), (100, true), (100, false), (312, true), (512, true)]),
            [(512, true), (512, false), (512, true)]
        );
        assert_eq!(of(&[(512, true), (512, true)]), [(1024, true)]);
        // A part of a block behind the last is not told, unless there is nothing else.
        assert_eq!(of(&[(512, true), (100, false)]), [(512, true)]);
        assert_eq!(of(&[(100, true)]), [(512, false)]);
        assert_eq!(of(&[(511, true)]), [(512, false)]);
        assert_eq!(of(&[(100, true), (100, false)]), [(512, false)]);
    }
}
