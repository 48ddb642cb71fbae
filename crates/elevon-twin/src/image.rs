//! The bytes of a disk: pages that were written, and zeroes elsewhere.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Length of a page in bytes.
const PAGE: usize = 4096;

/// The bytes of a disk. A copy shares its pages until one of both writes them.
#[derive(Clone, Debug, Default)]
pub struct Image {
    pages: BTreeMap<u64, Arc<[u8; PAGE]>>,
}

impl Image {
    /// Fills `into` with the bytes at `offset`.
    pub fn read(&self, offset: u64, into: &mut [u8]) {
        for_each_page(offset, into.len(), |page, within, range| {
            let part = &mut into[range];
            match self.pages.get(&page) {
                Some(bytes) => part.copy_from_slice(&bytes[within..within + part.len()]),
                None => part.fill(0),
            }
        });
    }

    /// Writes `from` at `offset`.
    pub fn write(&mut self, offset: u64, from: &[u8]) {
        for_each_page(offset, from.len(), |page, within, range| {
            let part = &from[range];
            let bytes = self.pages.entry(page).or_insert_with(|| Arc::new([0; PAGE]));
            Arc::make_mut(bytes)[within..within + part.len()].copy_from_slice(part);
        });
    }

    /// Writes zeroes to `length` bytes at `offset`.
    pub fn clear(&mut self, offset: u64, length: u64) {
        for_each_page(offset, length as usize, |page, within, range| {
            if range.len() == PAGE {
                self.pages.remove(&page);
            } else if let Some(bytes) = self.pages.get_mut(&page) {
                Arc::make_mut(bytes)[within..within + range.len()].fill(0);
            }
        });
    }

    /// Returns the number of bytes in pages that were written.
    pub fn bytes(&self) -> u64 {
        (self.pages.len() * PAGE) as u64
    }
}

/// Calls `each` for every page of a range: the page, the first byte in the page, and the part of
/// the range.
fn for_each_page(
    offset: u64,
    length: usize,
    mut each: impl FnMut(u64, usize, core::ops::Range<usize>),
) {
    let mut done = 0;
    while done < length {
        let at = offset + done as u64;
        let within = (at % PAGE as u64) as usize;
        let part = (PAGE - within).min(length - done);
        each(at / PAGE as u64, within, done..done + part);
        done += part;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_across_pages_are_read_again_and_copies_are_apart() {
        let mut image = Image::default();
        let data: Vec<u8> = (0..9000).map(|at| at as u8).collect();
        image.write(1000, &data);
        let copy = image.clone();
        image.clear(4096, 4096);
        let read = |image: &Image, at, bytes| {
            let mut into = vec![1; bytes];
            image.read(at, &mut into);
            into
        };
        assert_eq!(read(&copy, 1000, 9000), data);
        assert_eq!(read(&image, 4096, 4096), vec![0; 4096]);
        assert_eq!(read(&image, 8192, 1808), data[7192..]);
        assert_eq!(read(&image, 0, 1000), vec![0; 1000]);
        assert_eq!((copy.bytes(), image.bytes()), (12288, 8192));
    }
}
