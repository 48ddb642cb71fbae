//! Page frames: the state of each, and the index of each file's pages.
//!
//! A page has two names. Its [`FrameId`] is its frame; its [`LeafEntry`] is its place in the index.
//! The state that a hit needs, [`Bits`], is stored by place, so a hit reads neither the frame nor
//! the index's entry: it costs one cache miss, and 32 adjacent pages share a cache line. The state
//! that reclaim needs is stored by frame, which records its place.
//!
//! The arena is as large as memory. A [`FrameId`] is a frame number, so two pages in frames `n` and
//! `n + 1` are contiguous in memory and may share a vector of a bio. Frames that were never used
//! are allocated in ascending order, then freed frames in the order in which they were freed: a
//! file that was evicted in order is read again into contiguous frames. (The kernel's free lists
//! keep part of that order; this is the most that they can keep.) All folios are single pages.
//!
//! Bytes: [`PAGE_BYTES`] per frame (4 more once a tenant has made a page dirty), and
//! [`Pages::index_bytes`] for the index with the bits: 7 per page if files are cached in runs.
//!
//! Cost: each operation O(1), except those of the index; see `tree`.

mod bits;
mod list;
#[cfg(test)]
mod tests;
mod tree;

use alloc::vec::Vec;
use core::ops::{Index, IndexMut};

pub use bits::Flags;
pub(crate) use bits::{Bits, FIELD_MAX};
pub(crate) use list::List;
pub use tree::Tag;
pub(crate) use tree::{Entry, LeafEntry};

use super::shadow::Shadow;
use super::{FileId, FrameId};
use elevon_core::tenant::ROOT;
use elevon_core::units::{PageIndex, TenantId};
use tree::{Tree, WIDTH};

/// No page, or no node.
const NONE: u32 = u32::MAX;
/// Bytes of state per frame, without the index.
pub(crate) const PAGE_BYTES: u64 = size_of::<Page>() as u64;
/// The maximum number of frames: 8 TiB less a page.
pub(crate) const FRAMES_MAX: u64 = (1 << 31) - 1;
/// State of a frame, for the methods of [`Pages`] only.
#[derive(Clone, Copy, Debug)]
pub struct Page {
    /// Leaf of the index that holds this page, and the offset in it.
    leaf: u32,
    /// Neighbours in a [`List`], towards the head and the tail; `next` also in the queue of free
    /// frames.
    prev: u32,
    next: u32,
    pins: u16,
    maps: u8,
    offset: u8,
}

const _: () = assert!(PAGE_BYTES == 16);

impl Page {
    const FREE: Self = Self { leaf: NONE, prev: NONE, next: NONE, pins: 0, maps: 0, offset: 0 };
}

/// A page that left memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evicted {
    /// The frame that is free now.
    pub frame: FrameId,
    /// Its file.
    pub file: FileId,
    /// Its position in the file.
    pub index: PageIndex,
    /// Number of page tables that mapped it; those mappings were removed.
    pub maps: u16,
}

/// All page frames, and the index of what they hold.
#[derive(Clone, Debug)]
pub struct Pages {
    frames: Vec<Page>,
    /// The bits of each page in each node of the index; zero if there is no page.
    bits: Vec<[Bits; WIDTH as usize]>,
    capacity: u32,
    tree: Tree,
    /// Accessed bits of the page tables, one per frame: all mappings of a page share it.
    accessed: Vec<u64>,
    free_head: u32,
    free_tail: u32,
    used: u64,
    dirty: u64,
    cancelled: u64,
    writeback: u64,
    mapped: u64,
    /// The tenant that made each frame's page dirty; the root for frames beyond the end. Valid
    /// while the page is dirty.
    owners: Vec<TenantId>,
    /// Dirty pages by owner.
    owned: Vec<u64>,
    /// The order of the folio of each frame's page; 0 for frames beyond the end.
    orders: Vec<u8>,
}

impl Index<FrameId> for Pages {
    type Output = Page;
    #[inline]
    fn index(&self, frame: FrameId) -> &Page {
        &self.frames[frame.0 as usize]
    }
}

impl IndexMut<FrameId> for Pages {
    #[inline]
    fn index_mut(&mut self, frame: FrameId) -> &mut Page {
        &mut self.frames[frame.0 as usize]
    }
}

impl Pages {
    /// Returns an arena of `frames` frames, all free.
    ///
    /// # Panics
    /// If `frames` is above [`FRAMES_MAX`].
    pub fn new(frames: u64) -> Self {
        assert!(frames <= FRAMES_MAX, "more than {FRAMES_MAX} frames");
        Self {
            frames: Vec::new(),
            bits: Vec::new(),
            capacity: frames as u32,
            tree: Tree::new(),
            accessed: Vec::new(),
            free_head: NONE,
            free_tail: NONE,
            used: 0,
            dirty: 0,
            cancelled: 0,
            writeback: 0,
            mapped: 0,
            owners: Vec::new(),
            owned: Vec::new(),
            orders: Vec::new(),
        }
    }

    /// Returns the page at `index` of a file, if cached. Remembers the leaf, so that adjacent pages
    /// are found in O(1).
    #[inline]
    pub fn find(&mut self, file: FileId, index: PageIndex) -> Option<FrameId> {
        self.place(file, index).map(|place| self.frame(place))
    }

    /// Returns the place of the page at `index` of a file; remembers the leaf as [`Self::find`]
    /// does.
    #[inline]
    pub fn place(&mut self, file: FileId, index: PageIndex) -> Option<LeafEntry> {
        self.tree.find(file, index).filter(|&place| self.at(place).has(Flags::USED))
    }

    /// Returns the page at a place.
    #[inline]
    pub fn frame(&self, place: LeafEntry) -> FrameId {
        self.tree.frame(place)
    }

    /// Returns the entry at `index` of a file.
    pub fn entry(&self, file: FileId, index: PageIndex) -> Entry {
        self.tree.peek(file, index)
    }

    /// Returns the order of the folio of the page at `index` of a file, if cached.
    pub(crate) fn folio_order(&self, file: FileId, index: PageIndex) -> Option<u32> {
        match self.entry(file, index) {
            Entry::Page(frame) => Some(self.order(frame)),
            Entry::Empty | Entry::Shadow(_) => None,
        }
    }

    /// Returns the first page of a file at or after `from`.
    pub fn next(&self, file: FileId, from: PageIndex) -> Option<(PageIndex, FrameId)> {
        self.tree.next(file, from, None)
    }

    /// Returns the first page of a file at or after `from` that has a tag.
    pub fn next_tagged(
        &self,
        file: FileId,
        from: PageIndex,
        tag: Tag,
    ) -> Option<(PageIndex, FrameId)> {
        self.tree.next(file, from, Some(tag))
    }

    /// Inserts a page at `index` of a file, which has none there, into a free frame: not up to
    /// date, and on no list. Returns the page, and the shadow that was there; `None` if no frame is
    /// free.
    pub(super) fn insert(
        &mut self,
        file: FileId,
        index: PageIndex,
    ) -> Option<(FrameId, Option<Shadow>)> {
        let frame = self.take_frame()?;
        let (place, shadow) = self.tree.insert(file, index, frame);
        self[frame] = Page { leaf: place.leaf, offset: place.offset, ..Page::FREE };
        if self.bits.len() < self.tree.nodes() {
            self.bits.resize(self.tree.nodes(), [Bits::NONE; WIDTH as usize]);
        }
        *self.at_mut(place) = Bits::NEW;
        if let Some(order) = self.orders.get_mut(frame.0 as usize) {
            *order = 0;
        }
        Some((frame, shadow))
    }

    fn take_frame(&mut self) -> Option<FrameId> {
        if self.used == u64::from(self.capacity) {
            return None;
        }
        self.used += 1;
        let fresh = self.frames.len() as u32;
        if fresh < self.capacity {
            if self.frames.is_empty() {
                self.frames.reserve_exact(self.capacity as usize);
            }
            self.frames.push(Page::FREE);
            if self.accessed.len() * 64 < self.frames.len() {
                self.accessed.push(0);
            }
            return Some(FrameId(fresh));
        }
        let frame = FrameId(self.free_head);
        self.free_head = self[frame].next;
        if self.free_head == NONE {
            self.free_tail = NONE;
        }
        Some(frame)
    }

    /// Removes a page that is on no list, leaves `shadow` in its place, and frees its frame.
    ///
    /// # Panics
    /// If it is locked, dirty, under writeback or pinned.
    pub(super) fn remove(&mut self, frame: FrameId, shadow: Option<Shadow>) -> Evicted {
        assert!(self.is_evictable(frame), "{frame:?} is in use");
        assert_eq!(self.list_tag(frame), 0, "{frame:?} is on a list");
        let (file, index) = self.key(frame);
        let maps = self.maps(frame);
        let place = self.place_of(frame);
        *self.at_mut(place) = Bits::NONE;
        self.tree.remove(place, shadow);
        self.mapped -= u64::from(maps != 0);
        self.take_accessed(frame);
        self[frame] = Page::FREE;
        match self.free_tail {
            NONE => self.free_head = frame.0,
            tail => self[FrameId(tail)].next = frame.0,
        }
        self.free_tail = frame.0;
        self.used -= 1;
        Evicted { frame, file, index, maps }
    }

    /// Removes the shadows in `[first, end)`, because truncated and invalidated pages leave none.
    /// Costs O(leaves of the file in the range), and nothing if there are no shadows at all.
    pub fn forget(&mut self, file: FileId, first: PageIndex, end: PageIndex) {
        self.tree.forget(file, first, end);
    }

    /// Drops index nodes that hold only shadows, oldest first, until at most one per eight pages in
    /// use is left, as the kernel does.
    pub(super) fn limit_shadows(&mut self) {
        self.tree.drop_shadows(self.used >> 3);
    }

    /// Returns the file and index of a page.
    #[inline]
    pub fn key(&self, frame: FrameId) -> (FileId, PageIndex) {
        self.tree.key(self.place_of(frame))
    }

    /// Returns a page's place in the index, which does not change until the page is removed.
    #[inline]
    pub fn place_of(&self, frame: FrameId) -> LeafEntry {
        let &Page { leaf, offset, .. } = &self[frame];
        LeafEntry { leaf, offset }
    }

    /// Returns flags, reference field and list tag of the page at a place.
    #[inline]
    pub fn at(&self, place: LeafEntry) -> Bits {
        self.bits[place.leaf as usize][place.offset()]
    }

    /// Returns flags, reference field and list tag of the page at a place, for changes.
    #[inline]
    pub(super) fn at_mut(&mut self, place: LeafEntry) -> &mut Bits {
        &mut self.bits[place.leaf as usize][place.offset()]
    }

    /// Returns flags, reference field and list tag of a page; none for a free frame.
    #[inline]
    pub fn bits(&self, frame: FrameId) -> Bits {
        match self.bits.get(self[frame].leaf as usize) {
            Some(leaf) => leaf[self.place_of(frame).offset()],
            None => Bits::NONE,
        }
    }

    #[inline]
    pub(super) fn bits_mut(&mut self, frame: FrameId) -> &mut Bits {
        self.at_mut(self.place_of(frame))
    }

    /// Returns a page's flags.
    #[inline]
    pub fn flags(&self, frame: FrameId) -> Flags {
        self.bits(frame).flags()
    }

    /// Returns true if a page has any of `flags`.
    #[inline]
    pub fn has(&self, frame: FrameId, flags: Flags) -> bool {
        self.bits(frame).has(flags)
    }

    /// Sets flags. [`Flags::DIRTY`], [`Flags::WRITEBACK`] and [`Flags::MAPPED`] have their own
    /// methods, because they are counted.
    #[inline]
    pub fn set(&mut self, frame: FrameId, flags: Flags) {
        self.bits_mut(frame).set(flags);
    }

    /// Clears flags, except those that [`Self::set`] does not set.
    #[inline]
    pub fn clear(&mut self, frame: FrameId, flags: Flags) {
        self.bits_mut(frame).clear(flags);
    }

    /// Sets and clears flags at the cost of one of them; returns the new bits.
    #[inline]
    pub(crate) fn set_and_clear(&mut self, frame: FrameId, set: Flags, clear: Flags) -> Bits {
        let bits = self.bits_mut(frame);
        bits.set(set);
        bits.clear(clear);
        *bits
    }

    /// Returns the reference field, 0 to [`FIELD_MAX`].
    #[inline]
    pub fn field(&self, frame: FrameId) -> u32 {
        self.bits(frame).field()
    }

    /// Sets the reference field.
    #[inline]
    pub(crate) fn set_field(&mut self, frame: FrameId, value: u32) {
        self.bits_mut(frame).set_field(value);
    }

    /// Returns which of its policy's lists the page is on; 0: none.
    #[inline]
    pub(super) fn list_tag(&self, frame: FrameId) -> u32 {
        self.bits(frame).list_tag()
    }

    #[inline]
    pub(super) fn set_list_tag(&mut self, frame: FrameId, tag: u32) {
        self.bits_mut(frame).set_list_tag(tag);
    }

    /// Marks a page dirty. Returns true if it was clean; it then belongs to this tenant until it is
    /// clean again. The marker of readahead and the mark of reclaim stay, as measured with writes
    /// to a block device and to ext4 on Linux 6.18.
    pub(crate) fn set_dirty(&mut self, frame: FrameId, tenant: TenantId) -> bool {
        let place = self.place_of(frame);
        let was_clean = !self.at(place).has(Flags::DIRTY);
        self.at_mut(place).change(Flags::DIRTY, Flags::NONE);
        if was_clean {
            self.dirty += 1;
            self.set_owner(frame, tenant);
            self.owned[tenant.index()] += 1;
            self.tree.set_tag(place, Tag::Dirty);
        }
        was_clean
    }

    fn set_owner(&mut self, frame: FrameId, tenant: TenantId) {
        let at = frame.0 as usize;
        if at >= self.owners.len() && tenant != ROOT {
            self.owners.resize(self.frames.len(), ROOT);
        }
        if let Some(owner) = self.owners.get_mut(at) {
            *owner = tenant;
        }
        if self.owned.len() <= tenant.index() {
            self.owned.resize(tenant.index() + 1, 0);
        }
    }

    /// Returns the tenant that made a page dirty; for a clean page, the tenant that last made a
    /// page of its frame dirty.
    #[inline]
    pub fn owner(&self, frame: FrameId) -> TenantId {
        self.owners.get(frame.0 as usize).copied().unwrap_or(ROOT)
    }

    /// Returns the number of dirty pages of a tenant.
    pub(crate) fn dirty_of(&self, tenant: TenantId) -> u64 {
        self.owned.get(tenant.index()).copied().unwrap_or(0)
    }

    /// Returns the tenants that have dirty pages.
    pub(crate) fn dirty_tenants(&self) -> impl Iterator<Item = TenantId> + '_ {
        let dirty = self.owned.iter().enumerate().filter(|&(_, &count)| count > 0);
        dirty.map(|(tenant, _)| TenantId(tenant as u32))
    }

    /// Makes a page clean without writing it (its data is not needed any more).
    pub(crate) fn cancel_dirty(&mut self, frame: FrameId) {
        if self.has(frame, Flags::DIRTY) {
            self.make_clean(frame);
            self.cancelled += 1;
        }
    }

    /// Makes a dirty page clean.
    fn make_clean(&mut self, frame: FrameId) {
        let place = self.place_of(frame);
        self.dirty -= 1;
        let owner = self.owner(frame);
        self.owned[owner.index()] -= 1;
        self.at_mut(place).change(Flags::NONE, Flags::DIRTY);
        self.tree.clear_tag(place, Tag::Dirty);
        self.tree.clear_tag(place, Tag::ToWrite);
    }

    /// Begins the writeback of a dirty page: it becomes clean and under writeback.
    ///
    /// # Panics
    /// If it is not dirty, or already under writeback.
    pub(crate) fn begin_writeback(&mut self, frame: FrameId) {
        assert!(self.has(frame, Flags::DIRTY), "{frame:?} is clean");
        assert!(!self.has(frame, Flags::WRITEBACK), "{frame:?} is under writeback");
        self.make_clean(frame);
        self.writeback += 1;
        let place = self.place_of(frame);
        self.at_mut(place).change(Flags::WRITEBACK, Flags::NONE);
        self.tree.set_tag(place, Tag::Writeback);
    }

    /// Ends the writeback of a page. Callers use [`super::resident::Resident::end_writeback`],
    /// which also tells the policy.
    pub(super) fn end_writeback(&mut self, frame: FrameId) {
        assert!(self.has(frame, Flags::WRITEBACK), "{frame:?} is not under writeback");
        self.writeback -= 1;
        let place = self.place_of(frame);
        self.at_mut(place).change(Flags::NONE, Flags::WRITEBACK);
        self.tree.clear_tag(place, Tag::Writeback);
    }

    /// Tags the dirty pages from `first` to `last` as those that an integrity write must write.
    /// Returns their number.
    pub(crate) fn tag_to_write(&mut self, file: FileId, first: PageIndex, last: PageIndex) -> u64 {
        let (mut at, mut count) = (first, 0);
        while let Some((index, frame)) =
            self.next_tagged(file, at, Tag::Dirty).filter(|&(index, _)| index <= last)
        {
            self.tree.set_tag(self.place_of(frame), Tag::ToWrite);
            count += 1;
            if index == PageIndex::MAX {
                break;
            }
            at = index.next();
        }
        count
    }

    /// Pins a page in memory until as many calls of [`Self::unpin`].
    ///
    /// # Panics
    /// At 65,536 pins of one page.
    #[inline]
    pub fn pin(&mut self, frame: FrameId) {
        let pins = &mut self[frame].pins;
        *pins = pins.checked_add(1).expect("a page is pinned 65,536 times");
    }

    /// Removes a pin.
    ///
    /// # Panics
    /// If the page has no pin.
    #[inline]
    pub(crate) fn unpin(&mut self, frame: FrameId) {
        let pins = &mut self[frame].pins;
        *pins = pins.checked_sub(1).expect("a page without pins is unpinned");
    }

    /// Returns true if a page is pinned.
    #[inline]
    pub(crate) fn is_pinned(&self, frame: FrameId) -> bool {
        self[frame].pins != 0
    }

    /// Counts a page table that maps the page. (Reclaim may evict mapped pages; their mappings are
    /// removed.)
    ///
    /// # Panics
    /// At 256 maps of one page.
    pub fn map(&mut self, frame: FrameId) {
        let maps = &mut self[frame].maps;
        *maps = maps.checked_add(1).expect("a page is mapped 256 times");
        if *maps == 1 {
            self.mapped += 1;
            self.bits_mut(frame).change(Flags::MAPPED, Flags::NONE);
        }
    }

    /// Counts a page table that no longer maps the page.
    ///
    /// # Panics
    /// If no page table maps it.
    pub fn unmap(&mut self, frame: FrameId) {
        let maps = &mut self[frame].maps;
        *maps = maps.checked_sub(1).expect("a page that is not mapped is unmapped");
        if *maps == 0 {
            self.mapped -= 1;
            self.bits_mut(frame).change(Flags::NONE, Flags::MAPPED);
        }
    }

    /// Returns the order of a page's folio: two to the power of it pages were read together,
    /// aligned to their number. Each is a page of its own in all but readahead.
    #[inline]
    pub fn order(&self, frame: FrameId) -> u32 {
        self.orders.get(frame.0 as usize).copied().unwrap_or(0).into()
    }

    /// Sets the order of a page's folio, at most 255.
    pub(crate) fn set_order(&mut self, frame: FrameId, order: u32) {
        let at = frame.0 as usize;
        if at >= self.orders.len() && order > 0 {
            self.orders.resize(self.frames.len(), 0);
        }
        if let Some(of_frame) = self.orders.get_mut(at) {
            *of_frame = order as u8;
        }
    }

    /// Returns the number of page tables that map a page.
    #[inline]
    pub fn maps(&self, frame: FrameId) -> u16 {
        self[frame].maps.into()
    }

    /// Sets the accessed bit of the page tables.
    #[inline]
    pub(crate) fn set_accessed(&mut self, frame: FrameId) {
        self.accessed[frame.0 as usize >> 6] |= 1 << (frame.0 & 63);
    }

    /// Clears the accessed bit. Returns its old value.
    #[inline]
    pub(crate) fn take_accessed(&mut self, frame: FrameId) -> bool {
        let word = &mut self.accessed[frame.0 as usize >> 6];
        let was = *word >> (frame.0 & 63) & 1 != 0;
        *word &= !(1 << (frame.0 & 63));
        was
    }

    /// Clears the accessed bits of 64 frames, from `word * 64` on. Returns their old values, or
    /// `None` beyond the last frame.
    pub(super) fn take_accessed_word(&mut self, word: usize) -> Option<u64> {
        self.accessed.get_mut(word).map(core::mem::take)
    }

    /// Returns the page at an offset (0 to 63) of the aligned 64 indexes of its file that contain
    /// `frame`.
    pub(super) fn neighbour(&self, frame: FrameId, offset: u32) -> Option<FrameId> {
        self.tree.leaf_page(self[frame].leaf, offset)
    }

    /// Returns true if a page may be evicted: it is not locked, dirty, under writeback or pinned.
    #[inline]
    pub(crate) fn is_evictable(&self, frame: FrameId) -> bool {
        let bits = self.bits(frame);
        !bits.has(Flags::LOCKED | Flags::DIRTY | Flags::WRITEBACK)
            && !self.is_pinned(frame)
            && bits.has(Flags::USED)
    }

    #[inline]
    fn is_used(&self, frame: FrameId) -> bool {
        self.has(frame, Flags::USED)
    }

    /// Returns the number of frames.
    pub const fn capacity(&self) -> u64 {
        self.capacity as u64
    }
    /// Returns the number of frames that were ever in use.
    pub(crate) const fn frames_touched(&self) -> u64 {
        self.frames.len() as u64
    }
    /// Returns the number of pages in memory.
    #[inline]
    pub const fn used(&self) -> u64 {
        self.used
    }
    /// Returns the number of dirty pages, including those under writeback that are dirty again.
    #[inline]
    pub const fn dirty(&self) -> u64 {
        self.dirty
    }
    /// Returns how many pages were made clean without being written.
    pub const fn cancelled(&self) -> u64 {
        self.cancelled
    }
    /// Returns the number of pages under writeback.
    #[inline]
    pub const fn writeback(&self) -> u64 {
        self.writeback
    }
    /// Returns the number of pages that are mapped.
    pub const fn mapped(&self) -> u64 {
        self.mapped
    }
    /// Returns the number of pages of one file.
    pub(crate) fn file_pages(&self, file: FileId) -> u64 {
        self.tree.file_pages(file)
    }
    /// Returns the number of shadows of all files.
    pub const fn shadows(&self) -> u64 {
        self.tree.shadows()
    }
    /// Returns the bytes of the index nodes in use, and of their pages' bits.
    pub(crate) const fn index_bytes(&self) -> u64 {
        self.tree.used() * (tree::NODE_BYTES + WIDTH * size_of::<Bits>() as u64)
    }

    /// Panics if a count, a flag or the index is wrong. Costs O(pages); for tests.
    pub fn self_check(&self) {
        self.tree.self_check();
        assert!(self.tree.shadow_leaves() <= self.tree.shadows());
        let (mut used, mut dirty, mut writeback, mut mapped) = (0, 0, 0, 0);
        let mut owned = alloc::vec![0; self.owned.len()];
        for frame in (0..self.frames.len() as u32).map(FrameId) {
            let page = &self[frame];
            if !self.is_used(frame) {
                assert_eq!(
                    (self.bits(frame), page.pins, page.maps),
                    (Bits::NONE, 0, 0),
                    "{frame:?} is free and has state"
                );
                continue;
            }
            let (file, index) = self.key(frame);
            assert_eq!(self.entry(file, index), Entry::Page(frame));
            assert_eq!(self.frame(self.place_of(frame)), frame);
            for (flag, tag) in [(Flags::DIRTY, Tag::Dirty), (Flags::WRITEBACK, Tag::Writeback)] {
                assert_eq!(self.has(frame, flag), self.tree.has_tag(self.place_of(frame), tag));
            }
            assert_eq!(self.has(frame, Flags::MAPPED), page.maps != 0);
            used += 1;
            if self.has(frame, Flags::DIRTY) {
                dirty += 1;
                owned[self.owner(frame).index()] += 1;
            }
            writeback += u64::from(self.has(frame, Flags::WRITEBACK));
            mapped += u64::from(page.maps != 0);
        }
        assert_eq!(
            (used, dirty, writeback, mapped),
            (self.used, self.dirty, self.writeback, self.mapped)
        );
        assert_eq!(owned, self.owned, "dirty pages by owner");
        let with_bits = self.bits.as_flattened().iter().filter(|&&bits| bits != Bits::NONE).count();
        assert_eq!(with_bits as u64, used, "bits of a page that is not there");
    }
}
