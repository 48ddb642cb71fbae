//! A slab: entries by `u32` key. Freed keys are used again, last freed first. O(1), no allocation
//! once it has grown.

extern crate alloc;
use alloc::vec::Vec;

/// Entries of one kind. The entry of a freed key keeps its old value until the key is used again.
#[derive(Clone, Debug, Default)]
pub struct Pool<T> {
    entries: Vec<T>,
    free: Vec<u32>,
}

impl<T: Copy> Pool<T> {
    /// Returns an empty slab.
    pub const fn new() -> Self {
        Self { entries: Vec::new(), free: Vec::new() }
    }

    /// Inserts the result of `value`, written directly to its place and not through the stack. (A
    /// wide read of data that was just written field by field stalls a processor; a bio is as large
    /// as two cache lines.)
    #[inline(always)]
    pub(crate) fn insert_with(&mut self, value: impl FnOnce() -> T) -> u32 {
        let Some(key) = self.free.pop() else { return self.grow(value()) };
        self.entries[key as usize] = value();
        key
    }

    /// Inserts a value and returns its key.
    #[inline]
    pub fn insert(&mut self, value: T) -> u32 {
        self.insert_with(|| value)
    }

    #[cold]
    fn grow(&mut self, value: T) -> u32 {
        self.entries.push(value);
        (self.entries.len() - 1) as u32
    }

    /// Frees a key and returns its entry.
    #[inline]
    pub fn remove(&mut self, key: u32) -> &T {
        self.free.push(key);
        &self.entries[key as usize]
    }

    /// Frees a key whose entry is not needed any more.
    #[inline]
    pub fn free(&mut self, key: u32) {
        self.free.push(key);
    }

    /// Returns the number of entries in use.
    #[inline]
    pub fn live(&self) -> usize {
        self.entries.len() - self.free.len()
    }
}

impl<T> core::ops::Index<u32> for Pool<T> {
    type Output = T;
    #[inline]
    fn index(&self, key: u32) -> &T {
        &self.entries[key as usize]
    }
}

impl<T> core::ops::IndexMut<u32> for Pool<T> {
    #[inline]
    fn index_mut(&mut self, key: u32) -> &mut T {
        &mut self.entries[key as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_used_again() {
        let mut pool = Pool::new();
        let (a, b) = (pool.insert('a'), pool.insert('b'));
        assert_eq!(*pool.remove(a), 'a');
        assert_eq!(pool.insert('c'), a);
        assert_eq!((pool[a], pool[b], pool.live()), ('c', 'b', 2));
    }
}
