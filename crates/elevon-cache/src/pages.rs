//! Page frames: the state of each, and where each file's pages are.
//!
//! A page has two names. Its [`FrameId`] is its frame; its [`LeafEntry`] is where the index has it.
//! What a hit wants, [`Bits`], lies by place, so that a hit finds it without a look at the frame or
//! at the index's entry: one cache miss, and 32 neighbours in a cache line. What reclaim wants lies
//! by frame, which knows its place.
//!
//! The arena is as large as memory. A [`FrameId`] is a frame number, so two pages in frames `n` and
//! `n + 1` are contiguous in memory and may share a vector of a bio. Frames are handed out in
//! ascending order while memory is fresh, and afterwards in the order in which they were freed: a
//! file that was evicted in order is read again into contiguous frames. (The kernel's free lists
//! keep some of that order and lose some; this is the most that they can keep.) All folios are
//! single pages.
//!
//! Bytes: [`PAGE_BYTES`] a frame (4 more once a tenant has made a page dirty), and
//! [`Pages::index_bytes`] for the index with the bits: 7 a page where files are cached in runs.
//!
//! Cost: each operation O(1), but for those of the index; see `tree`.

mod bits;
mod list;
#[cfg(test)]
mod tests;
mod tree;

use alloc::vec::Vec;
use core::ops::{Index, IndexMut};

pub use bits::{Bits, FIELD_MAX, Flags};
pub use list::List;
pub use tree::{Entry, LeafEntry, Tag};

use super::shadow::Shadow;
use super::{FileId, FrameId};
use elevon_core::tenant::ROOT;
use elevon_core::units::TenantId;
use tree::{Tree, WIDTH};

/// No page, or no node.
const NONE: u32 = u32::MAX;
/// Bytes of state that each frame takes beside the index.
pub const PAGE_BYTES: u64 = size_of::<Page>() as u64;
/// Most frames of an arena: 8 TiB less a page.
pub const FRAMES_MAX: u64 = (1 << 31) - 1;
/// State of a frame, for the methods of [`Pages`] only.
#[derive(Clone, Copy, Debug)]
pub struct Page {
    /// Leaf of the index that this page is in, and offset there.
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
    pub slot: FrameId,
    /// Its file.
    pub file: FileId,
    /// Its place in the file, in pages.
    pub index: u64,
    /// Page tables that mapped it: those mappings are gone.
    pub maps: u16,
}

/// All page frames, and the index of what they hold.
#[derive(Clone, Debug)]
pub struct Pages {
    frames: Vec<Page>,
    /// Of each page in each node of the index; zero where there is none.
    bits: Vec<[Bits; WIDTH as usize]>,
    capacity: u32,
    tree: Tree,
    /// Accessed bits of the page tables, one a frame: the mappings of one page are not told apart.
    accessed: Vec<u64>,
    free_head: u32,
    free_tail: u32,
    used: u64,
    dirty: u64,
    writeback: u64,
    mapped: u64,
    /// Who made each frame's page dirty; the root behind the end. Means something while the page is
    /// dirty.
    owners: Vec<TenantId>,
    /// Dirty pages by owner.
    owned: Vec<u64>,
}

impl Index<FrameId> for Pages {
    type Output = Page;
    #[inline]
    fn index(&self, slot: FrameId) -> &Page {
        &self.frames[slot.0 as usize]
    }
}

impl IndexMut<FrameId> for Pages {
    #[inline]
    fn index_mut(&mut self, slot: FrameId) -> &mut Page {
        &mut self.frames[slot.0 as usize]
    }
}

impl Pages {
    /// Room for `frames` pages, all free.
    ///
    /// # Panics
    /// Above [`FRAMES_MAX`].
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
            writeback: 0,
            mapped: 0,
            owners: Vec::new(),
            owned: Vec::new(),
        }
    }

    /// The page at `index` of a file. Remembers where it looked: neighbours are found in O(1).
    #[inline]
    pub fn find(&mut self, file: FileId, index: u64) -> Option<FrameId> {
        self.place(file, index).map(|place| self.slot(place))
    }

    /// Where the page at `index` of a file is; remembers as [`Self::find`] does.
    #[inline]
    pub fn place(&mut self, file: FileId, index: u64) -> Option<LeafEntry> {
        self.tree.find(file, index).filter(|&place| self.at(place).has(Flags::USED))
    }

    /// The page at a place.
    #[inline]
    pub fn slot(&self, place: LeafEntry) -> FrameId {
        self.tree.slot(place)
    }

    /// What is at `index` of a file.
    pub fn entry(&self, file: FileId, index: u64) -> Entry {
        self.tree.peek(file, index)
    }

    /// The first page of a file at or after `from`.
    pub fn next(&self, file: FileId, from: u64) -> Option<(u64, FrameId)> {
        self.tree.next(file, from, None)
    }

    /// The first page of a file at or after `from` that has a tag.
    pub fn next_tagged(&self, file: FileId, from: u64, tag: Tag) -> Option<(u64, FrameId)> {
        self.tree.next(file, from, Some(tag))
    }

    /// The first index at or after `from`, and less than `from + within`, that holds no page.
    pub fn next_gap(&self, file: FileId, from: u64, within: u64) -> Option<u64> {
        let end = from.saturating_add(within);
        let mut at = from;
        while at < end {
            let held = u64::from((self.tree.present(file, at) >> (at & 63)).trailing_ones());
            let room = 64 - (at & 63);
            at = at.saturating_add(held);
            if held < room {
                return (at < end).then_some(at);
            }
        }
        None
    }

    /// How many pages lie in a row right before `index`, counted to at most `within`.
    pub fn run_before(&self, file: FileId, index: u64, within: u64) -> u64 {
        let (mut at, mut run) = (index, 0);
        while at > 0 && run < within {
            let last = at - 1;
            let held = u64::from((self.tree.present(file, last) << (63 - (last & 63))).leading_ones());
            run += held;
            at -= held;
            if held < (last & 63) + 1 {
                break;
            }
        }
        run.min(within)
    }

    /// Puts a page for `index` of a file, which holds none, into a free frame: not up to date, not
    /// on any list. Answers the shadow that was there. `None` where no frame is free.
    pub(super) fn insert(&mut self, file: FileId, index: u64) -> Option<(FrameId, Option<Shadow>)> {
        let slot = self.take_frame()?;
        let (place, shadow) = self.tree.insert(file, index, slot);
        self[slot] = Page { leaf: place.leaf, offset: place.offset, ..Page::FREE };
        if self.bits.len() < self.tree.nodes() {
            self.bits.resize(self.tree.nodes(), [Bits::NONE; WIDTH as usize]);
        }
        *self.at_mut(place) = Bits::NEW;
        Some((slot, shadow))
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
        let slot = FrameId(self.free_head);
        self.free_head = self[slot].next;
        if self.free_head == NONE {
            self.free_tail = NONE;
        }
        Some(slot)
    }

    /// Takes a page that is on no list out, leaves `shadow` in its place, and frees its frame.
    ///
    /// # Panics
    /// Where it is locked, dirty, under writeback or pinned.
    pub(super) fn remove(&mut self, slot: FrameId, shadow: Option<Shadow>) -> Evicted {
        assert!(self.is_evictable(slot), "{slot:?} is in use");
        assert_eq!(self.list_tag(slot), 0, "{slot:?} is on a list");
        let (file, index) = self.key(slot);
        let maps = self.maps(slot);
        let place = self.place_of(slot);
        *self.at_mut(place) = Bits::NONE;
        self.tree.remove(place, shadow);
        self.mapped -= u64::from(maps != 0);
        self.take_accessed(slot);
        self[slot] = Page::FREE;
        match self.free_tail {
            NONE => self.free_head = slot.0,
            tail => self[FrameId(tail)].next = slot.0,
        }
        self.free_tail = slot.0;
        self.used -= 1;
        Evicted { slot, file, index, maps }
    }

    /// Forgets the shadows in `[first, end)`: what was truncated or invalidated leaves none. Costs
    /// O(leaves of the file in the range), and nothing where there are no shadows at all.
    pub fn forget(&mut self, file: FileId, first: u64, end: u64) {
        self.tree.forget(file, first, end);
    }

    /// Drops index nodes that hold shadows only, oldest first, until at most one for eight pages in
    /// use is left: the kernel's rule.
    pub(super) fn limit_shadows(&mut self) {
        self.tree.drop_shadows(self.used >> 3);
    }

    /// File and index of a page.
    #[inline]
    pub fn key(&self, slot: FrameId) -> (FileId, u64) {
        self.tree.key(self.place_of(slot))
    }

    /// Where a page is in the index; it stays there until it goes.
    #[inline]
    pub fn place_of(&self, slot: FrameId) -> LeafEntry {
        let &Page { leaf, offset, .. } = &self[slot];
        LeafEntry { leaf, offset }
    }

    /// Flags, reference field and list tag of the page at a place.
    #[inline]
    pub fn at(&self, place: LeafEntry) -> Bits {
        self.bits[place.leaf as usize][place.offset()]
    }

    /// The same, to be changed.
    #[inline]
    pub(super) fn at_mut(&mut self, place: LeafEntry) -> &mut Bits {
        &mut self.bits[place.leaf as usize][place.offset()]
    }

    /// Flags, reference field and list tag of a page; none of a free frame.
    #[inline]
    pub fn bits(&self, slot: FrameId) -> Bits {
        match self.bits.get(self[slot].leaf as usize) {
            Some(leaf) => leaf[self.place_of(slot).offset()],
            None => Bits::NONE,
        }
    }

    #[inline]
    pub(super) fn bits_mut(&mut self, slot: FrameId) -> &mut Bits {
        self.at_mut(self.place_of(slot))
    }

    /// Its flags.
    #[inline]
    pub fn flags(&self, slot: FrameId) -> Flags {
        self.bits(slot).flags()
    }

    /// Whether it has any of `flags`.
    #[inline]
    pub fn has(&self, slot: FrameId, flags: Flags) -> bool {
        self.bits(slot).has(flags)
    }

    /// Sets flags. [`Flags::DIRTY`], [`Flags::WRITEBACK`] and [`Flags::MAPPED`] have their own
    /// methods, because they are counted.
    #[inline]
    pub fn set(&mut self, slot: FrameId, flags: Flags) {
        self.bits_mut(slot).set(flags);
    }

    /// Clears flags, but for those that [`Self::set`] does not set.
    #[inline]
    pub fn clear(&mut self, slot: FrameId, flags: Flags) {
        self.bits_mut(slot).clear(flags);
    }

    /// Both, at the price of one; answers what is there then.
    #[inline]
    pub fn set_and_clear(&mut self, slot: FrameId, set: Flags, clear: Flags) -> Bits {
        let bits = self.bits_mut(slot);
        bits.set(set);
        bits.clear(clear);
        *bits
    }

    /// The reference field, 0 to [`FIELD_MAX`].
    #[inline]
    pub fn field(&self, slot: FrameId) -> u32 {
        self.bits(slot).field()
    }

    /// Sets the reference field.
    #[inline]
    pub fn set_field(&mut self, slot: FrameId, value: u32) {
        self.bits_mut(slot).set_field(value);
    }

    /// Which of its policy's lists it is on; 0: none.
    #[inline]
    pub(super) fn list_tag(&self, slot: FrameId) -> u32 {
        self.bits(slot).list_tag()
    }

    #[inline]
    pub(super) fn set_list_tag(&mut self, slot: FrameId, tag: u32) {
        self.bits_mut(slot).set_list_tag(tag);
    }

    /// Marks a page dirty, the root's; see [`Self::set_dirty_by`].
    pub fn set_dirty(&mut self, slot: FrameId) -> bool {
        self.set_dirty_by(slot, ROOT)
    }

    /// Marks a page dirty; answers whether it was clean. Then it is this tenant's until it is clean
    /// again. It is no candidate of reclaim any more.
    pub fn set_dirty_by(&mut self, slot: FrameId, tenant: TenantId) -> bool {
        let place = self.place_of(slot);
        let was_clean = !self.at(place).has(Flags::DIRTY);
        self.at_mut(place).change(Flags::DIRTY, Flags::RECLAIM);
        if was_clean {
            self.dirty += 1;
            self.set_owner(slot, tenant);
            self.owned[tenant.index()] += 1;
            self.tree.set_tag(place, Tag::Dirty);
        }
        was_clean
    }

    fn set_owner(&mut self, slot: FrameId, tenant: TenantId) {
        let at = slot.0 as usize;
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

    /// The tenant that made a page dirty; of a clean page, that did so last in its frame.
    #[inline]
    pub fn owner(&self, slot: FrameId) -> TenantId {
        self.owners.get(slot.0 as usize).copied().unwrap_or(ROOT)
    }

    /// Dirty pages of a tenant.
    pub fn dirty_of(&self, tenant: TenantId) -> u64 {
        self.owned.get(tenant.index()).copied().unwrap_or(0)
    }

    /// Tenants that have dirty pages.
    pub fn dirty_tenants(&self) -> impl Iterator<Item = TenantId> + '_ {
        let dirty = self.owned.iter().enumerate().filter(|&(_, &count)| count > 0);
        dirty.map(|(tenant, _)| TenantId(tenant as u32))
    }

    /// Makes a page clean without writing it (its data is not wanted any more).
    pub fn cancel_dirty(&mut self, slot: FrameId) {
        let place = self.place_of(slot);
        if self.at(place).has(Flags::DIRTY) {
            self.dirty -= 1;
            let owner = self.owner(slot);
            self.owned[owner.index()] -= 1;
            self.at_mut(place).change(Flags::NONE, Flags::DIRTY);
            self.tree.clear_tag(place, Tag::Dirty);
            self.tree.clear_tag(place, Tag::ToWrite);
        }
    }

    /// A dirty page is submitted for writing: clean, and under writeback.
    ///
    /// # Panics
    /// Where it is not dirty, or under writeback already.
    pub fn begin_writeback(&mut self, slot: FrameId) {
        assert!(self.has(slot, Flags::DIRTY), "{slot:?} is clean");
        assert!(!self.has(slot, Flags::WRITEBACK), "{slot:?} is under writeback");
        self.cancel_dirty(slot);
        self.writeback += 1;
        let place = self.place_of(slot);
        self.at_mut(place).change(Flags::WRITEBACK, Flags::NONE);
        self.tree.set_tag(place, Tag::Writeback);
    }

    /// Its writing is over. Callers want [`super::resident::Resident::end_writeback`], which tells
    /// the policy too.
    pub(super) fn end_writeback(&mut self, slot: FrameId) {
        assert!(self.has(slot, Flags::WRITEBACK), "{slot:?} is not under writeback");
        self.writeback -= 1;
        let place = self.place_of(slot);
        self.at_mut(place).change(Flags::NONE, Flags::WRITEBACK);
        self.tree.clear_tag(place, Tag::Writeback);
    }

    /// Tags the dirty pages from `first` to `last` as those that an integrity write has to write;
    /// answers how many.
    pub fn tag_to_write(&mut self, file: FileId, first: u64, last: u64) -> u64 {
        let (mut at, mut count) = (first, 0);
        while let Some((index, slot)) = self.next_tagged(file, at, Tag::Dirty).filter(|&(index, _)| index <= last) {
            self.tree.set_tag(self.place_of(slot), Tag::ToWrite);
            count += 1;
            match index.checked_add(1) {
                Some(next) => at = next,
                None => break,
            }
        }
        count
    }

    /// Keeps a page in memory until as many [`Self::unpin`].
    ///
    /// # Panics
    /// At 65,536 pins of one page.
    #[inline]
    pub fn pin(&mut self, slot: FrameId) {
        let pins = &mut self[slot].pins;
        *pins = pins.checked_add(1).expect("a page is pinned 65,536 times");
    }

    /// Takes a pin back.
    ///
    /// # Panics
    /// Where there is none.
    #[inline]
    pub fn unpin(&mut self, slot: FrameId) {
        let pins = &mut self[slot].pins;
        *pins = pins.checked_sub(1).expect("a page without pins is unpinned");
    }

    /// Whether anybody pins it.
    #[inline]
    pub fn is_pinned(&self, slot: FrameId) -> bool {
        self[slot].pins != 0
    }

    /// A page table maps it. (Reclaim may take mapped pages: their mappings go with them.)
    ///
    /// # Panics
    /// At 256 maps of one page.
    pub fn map(&mut self, slot: FrameId) {
        let maps = &mut self[slot].maps;
        *maps = maps.checked_add(1).expect("a page is mapped 256 times");
        if *maps == 1 {
            self.mapped += 1;
            self.bits_mut(slot).change(Flags::MAPPED, Flags::NONE);
        }
    }

    /// A page table maps it no more.
    ///
    /// # Panics
    /// Where none did.
    pub fn unmap(&mut self, slot: FrameId) {
        let maps = &mut self[slot].maps;
        *maps = maps.checked_sub(1).expect("a page that is not mapped is unmapped");
        if *maps == 0 {
            self.mapped -= 1;
            self.bits_mut(slot).change(Flags::NONE, Flags::MAPPED);
        }
    }

    /// Page tables that map it.
    #[inline]
    pub fn maps(&self, slot: FrameId) -> u16 {
        self[slot].maps.into()
    }

    /// Sets the accessed bit of the page tables.
    #[inline]
    pub fn set_accessed(&mut self, slot: FrameId) {
        self.accessed[slot.0 as usize >> 6] |= 1 << (slot.0 & 63);
    }

    /// Clears the accessed bit; answers what it was.
    #[inline]
    pub fn take_accessed(&mut self, slot: FrameId) -> bool {
        let word = &mut self.accessed[slot.0 as usize >> 6];
        let was = *word >> (slot.0 & 63) & 1 != 0;
        *word &= !(1 << (slot.0 & 63));
        was
    }

    /// Clears the accessed bits of 64 frames, `word * 64` and on; answers what they were, or `None`
    /// beyond the last frame.
    pub(super) fn take_accessed_word(&mut self, word: usize) -> Option<u64> {
        self.accessed.get_mut(word).map(core::mem::take)
    }

    /// The page at an offset (0 to 63) of the aligned 64 indexes of its file in which `slot` is.
    pub(super) fn neighbour(&self, slot: FrameId, offset: u32) -> Option<FrameId> {
        self.tree.leaf_page(self[slot].leaf, offset)
    }

    /// Whether it may be taken: not locked, dirty, under writeback or pinned.
    #[inline]
    pub fn is_evictable(&self, slot: FrameId) -> bool {
        let bits = self.bits(slot);
        !bits.has(Flags::LOCKED | Flags::DIRTY | Flags::WRITEBACK) && !self.is_pinned(slot) && bits.has(Flags::USED)
    }

    #[inline]
    fn is_used(&self, slot: FrameId) -> bool {
        self.has(slot, Flags::USED)
    }

    /// Frames in all.
    pub const fn capacity(&self) -> u64 {
        self.capacity as u64
    }
    /// Frames that were ever in use.
    pub const fn frames_touched(&self) -> u64 {
        self.frames.len() as u64
    }
    /// Pages in memory.
    #[inline]
    pub const fn used(&self) -> u64 {
        self.used
    }
    /// Dirty pages, those under writeback that are dirty again among them.
    #[inline]
    pub const fn dirty(&self) -> u64 {
        self.dirty
    }
    /// Pages under writeback.
    #[inline]
    pub const fn writeback(&self) -> u64 {
        self.writeback
    }
    /// Pages that some page table maps.
    pub const fn mapped(&self) -> u64 {
        self.mapped
    }
    /// Pages of one file.
    pub fn file_pages(&self, file: FileId) -> u64 {
        self.tree.file_pages(file)
    }
    /// Shadows of all files.
    pub const fn shadows(&self) -> u64 {
        self.tree.shadows()
    }
    /// Bytes of the nodes of the index that are in use, and of their pages' bits.
    pub const fn index_bytes(&self) -> u64 {
        self.tree.used() * (tree::NODE_BYTES + WIDTH * size_of::<Bits>() as u64)
    }

    /// Panics where a count, a flag or the index is wrong. Costs O(everything); for tests.
    pub fn self_check(&self) {
        self.tree.self_check();
        assert!(self.tree.shadow_leaves() <= self.tree.shadows());
        let (mut used, mut dirty, mut writeback, mut mapped) = (0, 0, 0, 0);
        let mut owned = alloc::vec![0; self.owned.len()];
        for slot in (0..self.frames.len() as u32).map(FrameId) {
            let page = &self[slot];
            if !self.is_used(slot) {
                assert_eq!(
                    (self.bits(slot), page.pins, page.maps),
                    (Bits::NONE, 0, 0),
                    "{slot:?} is free and has state"
                );
                continue;
            }
            let (file, index) = self.key(slot);
            assert_eq!(self.entry(file, index), Entry::Page(slot));
            assert_eq!(self.slot(self.place_of(slot)), slot);
            for (flag, tag) in [(Flags::DIRTY, Tag::Dirty), (Flags::WRITEBACK, Tag::Writeback)] {
                assert_eq!(self.has(slot, flag), self.tree.has_tag(self.place_of(slot), tag));
            }
            assert_eq!(self.has(slot, Flags::MAPPED), page.maps != 0);
            used += 1;
            if self.has(slot, Flags::DIRTY) {
                dirty += 1;
                owned[self.owner(slot).index()] += 1;
            }
            writeback += u64::from(self.has(slot, Flags::WRITEBACK));
            mapped += u64::from(page.maps != 0);
        }
        assert_eq!((used, dirty, writeback, mapped), (self.used, self.dirty, self.writeback, self.mapped));
        assert_eq!(owned, self.owned, "dirty pages by owner");
        let with_bits = self.bits.as_flattened().iter().filter(|&&bits| bits != Bits::NONE).count();
        assert_eq!(with_bits as u64, used, "bits of a page that is not there");
    }
}
