//! The index of each file: a radix tree of nodes with 64 entries, as the kernel's xarray.
//!
//! An entry of a leaf is empty, a page, or a shadow; above, an entry is a node. Each node has
//! bitmaps of which entries hold pages (or nodes) and of which have each [`Tag`], so ordered and
//! tagged walks skip what is not wanted. Each file remembers the leaf it looked at last.
//!
//! Leaves that hold shadows only are listed in the order in which they became so; reclaim drops the
//! first of them.
//!
//! Cost: a find is O(1) in the leaf of the last find, else O(log64) of the file's size; the next
//! page, gap or tagged page is O(log64) per leaf visited.

use alloc::vec::Vec;

use super::NONE;
use crate::shadow::Shadow;
use crate::{FileId, FrameId};
use elevon_core::units::PageIndex;

const SHIFT: u32 = 6;
/// Entries of a node.
pub(super) const WIDTH: u64 = 1 << SHIFT;
const SHADOW: u32 = 1 << 31;
/// Bytes of a node.
pub(super) const NODE_BYTES: u64 = size_of::<TreeNode>() as u64;

/// An entry of a leaf: the place of a page in the index, valid until the page is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeafEntry {
    pub(super) leaf: u32,
    pub(super) offset: u8,
}

impl LeafEntry {
    #[inline]
    fn new(leaf: u32, index: PageIndex) -> Self {
        Self { leaf, offset: (index.get() & (WIDTH - 1)) as u8 }
    }

    /// Returns the offset in the leaf, less than [`WIDTH`].
    #[inline]
    pub(super) const fn offset(self) -> usize {
        self.offset as usize & (WIDTH as usize - 1)
    }
}

/// A mark on pages that can be searched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tag {
    /// The page changed, and was not yet submitted for writing.
    Dirty = 0,
    /// The page was submitted for writing.
    Writeback = 1,
    /// The page was dirty when an integrity write began.
    ToWrite = 2,
}

impl Tag {
    const ALL: [Self; 3] = [Self::Dirty, Self::Writeback, Self::ToWrite];
}

/// The content of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Nothing.
    Empty,
    /// A page.
    Page(FrameId),
    /// The shadow that an evicted page left.
    Shadow(Shadow),
}

impl Entry {
    #[inline]
    fn decode(bits: u32) -> Self {
        match bits {
            0 => Self::Empty,
            bits if bits & SHADOW != 0 => Self::Shadow(Shadow::from_bits(bits)),
            bits => Self::Page(FrameId(bits - 1)),
        }
    }

    fn encode(self) -> u32 {
        match self {
            Self::Empty => 0,
            Self::Page(frame) => frame.0 + 1,
            Self::Shadow(shadow) => SHADOW | shadow.bits(),
        }
    }
}

/// A node of five cache lines, of which a walk needs only the first.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct TreeNode {
    /// Entries that hold a page, or, above the leaves, a node.
    present: u64,
    /// Entries that hold a shadow; none above the leaves.
    shadows: u64,
    tags: [u64; 3],
    /// Index of the first page below (a multiple of 64), and in its low bits the level: 0 for
    /// leaves.
    base: u64,
    file: u32,
    /// The node above, or [`NONE`] in a root.
    parent: u32,
    /// Neighbours in the list of leaves that hold shadows only; `next` also in the list of free
    /// nodes.
    prev: u32,
    next: u32,
    entries: [u32; WIDTH as usize],
}

impl TreeNode {
    #[inline]
    fn level(&self) -> u32 {
        (self.base & (WIDTH - 1)) as u32
    }
    #[inline]
    fn first(&self) -> u64 {
        self.base & !(WIDTH - 1)
    }
    #[inline]
    fn offset(&self, index: u64) -> u32 {
        (index >> (SHIFT * self.level()) & (WIDTH - 1)) as u32
    }
    fn is_only_shadows(&self) -> bool {
        self.present == 0 && self.shadows != 0
    }
}

#[derive(Clone, Debug)]
struct FileTree {
    root: u32,
    /// The leaf of the last find, or [`NONE`].
    last: u32,
    /// The index at which `last` begins. It is kept here because reading it in the leaf would cost
    /// a cache miss.
    last_first: PageIndex,
    pages: u64,
}

/// Nodes of all files.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    nodes: Vec<TreeNode>,
    files: Vec<FileTree>,
    free: u32,
    used: u64,
    /// Oldest and newest of the leaves that hold shadows only.
    oldest: u32,
    newest: u32,
    shadow_leaves: u64,
    shadows: u64,
}

/// Returns true if a node of `level` that begins at `first` covers `index`.
#[inline]
fn covers(first: u64, level: u32, index: u64) -> bool {
    let shift = SHIFT * (level + 1);
    shift >= u64::BITS || first >> shift == index >> shift
}

/// Returns the first index of the leaf that covers `index`.
#[inline]
const fn leaf_start(index: PageIndex) -> PageIndex {
    PageIndex::new(index.get() & !(WIDTH - 1))
}

impl Tree {
    pub(super) fn new() -> Self {
        let (nodes, files) = (Vec::new(), Vec::new());
        Self {
            nodes,
            files,
            free: NONE,
            used: 0,
            oldest: NONE,
            newest: NONE,
            shadow_leaves: 0,
            shadows: 0,
        }
    }

    /// Returns the place of an index, if its leaf exists; remembers the leaf.
    #[inline]
    pub(super) fn find(&mut self, file: FileId, index: PageIndex) -> Option<LeafEntry> {
        let known = self.files.get(file.0 as usize)?;
        let first = leaf_start(index);
        let mut leaf = known.last;
        if known.last_first != first || leaf == NONE {
            leaf = self.leaf(file, index);
            if leaf == NONE {
                return None;
            }
            let known = &mut self.files[file.0 as usize];
            (known.last, known.last_first) = (leaf, first);
        }
        Some(LeafEntry::new(leaf, index))
    }

    /// Returns the page at a place, which must hold one.
    #[inline]
    pub(super) fn frame(&self, place: LeafEntry) -> FrameId {
        FrameId(self.nodes[place.leaf as usize].entries[place.offset()] - 1)
    }

    /// Returns the content of an index.
    pub(super) fn peek(&self, file: FileId, index: PageIndex) -> Entry {
        match self.leaf(file, index) {
            NONE => Entry::Empty,
            leaf => Entry::decode(
                self.nodes[leaf as usize].entries[LeafEntry::new(leaf, index).offset()],
            ),
        }
    }

    fn leaf(&self, file: FileId, index: PageIndex) -> u32 {
        let index = index.get();
        let Some(known) = self.files.get(file.0 as usize) else { return NONE };
        let mut at = known.root;
        if at == NONE
            || !covers(self.nodes[at as usize].first(), self.nodes[at as usize].level(), index)
        {
            return NONE;
        }
        // Only the entries of the nodes on the path are read.
        for level in (1..=self.nodes[at as usize].level()).rev() {
            let offset = index >> (SHIFT * level) & (WIDTH - 1);
            match self.nodes[at as usize].entries[offset as usize] {
                0 => return NONE,
                child => at = child - 1,
            }
        }
        at
    }

    fn node(&mut self, file: FileId, first: u64, level: u32, parent: u32) -> u32 {
        let fresh = TreeNode {
            present: 0,
            shadows: 0,
            tags: [0; 3],
            base: first | u64::from(level),
            file: file.0,
            parent,
            prev: NONE,
            next: NONE,
            entries: [0; WIDTH as usize],
        };
        self.used += 1;
        if self.free == NONE {
            self.nodes.push(fresh);
            return (self.nodes.len() - 1) as u32;
        }
        let at = self.free;
        self.free = self.nodes[at as usize].next;
        self.nodes[at as usize] = fresh;
        at
    }

    /// Returns the leaf for `index`, created if there is none.
    fn leaf_or_new(&mut self, file: FileId, index: PageIndex) -> u32 {
        let at = file.0 as usize;
        if self.files.len() <= at {
            self.files.resize(
                at + 1,
                FileTree { root: NONE, last: NONE, last_first: PageIndex::ZERO, pages: 0 },
            );
        }
        let first = leaf_start(index);
        let known = &self.files[at];
        if known.last_first == first && known.last != NONE {
            return known.last;
        }
        let index = index.get();
        if self.files[at].root == NONE {
            self.files[at].root = self.node(file, first.get(), 0, NONE);
        }
        let mut root = self.files[at].root;
        while !covers(self.nodes[root as usize].first(), self.nodes[root as usize].level(), index) {
            let level = self.nodes[root as usize].level() + 1;
            let below = SHIFT * (level + 1);
            let first = if below >= u64::BITS {
                0
            } else {
                self.nodes[root as usize].first() >> below << below
            };
            let above = self.node(file, first, level, NONE);
            self.set_child(above, root);
            self.files[at].root = above;
            root = above;
        }
        let mut node = root;
        while self.nodes[node as usize].level() > 0 {
            let offset = self.nodes[node as usize].offset(index);
            let child = self.nodes[node as usize].entries[offset as usize];
            node = if child == 0 {
                let level = self.nodes[node as usize].level() - 1;
                let below = SHIFT * (level + 1);
                let child = self.node(file, index >> below << below, level, node);
                self.set_child(node, child);
                child
            } else {
                child - 1
            };
        }
        (self.files[at].last, self.files[at].last_first) = (node, first);
        node
    }

    fn set_child(&mut self, above: u32, child: u32) {
        let (first, tags) = (self.nodes[child as usize].first(), self.nodes[child as usize].tags);
        self.nodes[child as usize].parent = above;
        let node = &mut self.nodes[above as usize];
        let offset = node.offset(first);
        node.entries[offset as usize] = child + 1;
        node.present |= 1 << offset;
        for tag in Tag::ALL {
            node.tags[tag as usize] |= u64::from(tags[tag as usize] != 0) << offset;
        }
    }

    /// Inserts a page in an entry that holds none. Returns its place and the shadow that was there.
    pub(super) fn insert(
        &mut self,
        file: FileId,
        index: PageIndex,
        frame: FrameId,
    ) -> (LeafEntry, Option<Shadow>) {
        let leaf = self.leaf_or_new(file, index);
        let was_only_shadows = self.nodes[leaf as usize].is_only_shadows();
        let node = &mut self.nodes[leaf as usize];
        let place = LeafEntry::new(leaf, index);
        let offset = place.offset();
        let shadow = match Entry::decode(node.entries[offset]) {
            Entry::Page(_) => panic!("{file:?} has a page at {}", index.get()),
            Entry::Empty => None,
            Entry::Shadow(shadow) => Some(shadow),
        };
        node.entries[offset] = Entry::Page(frame).encode();
        node.present |= 1 << offset;
        node.shadows &= !(1 << offset);
        self.shadows -= u64::from(shadow.is_some());
        self.files[file.0 as usize].pages += 1;
        if was_only_shadows {
            self.unlist(leaf);
        }
        (place, shadow)
    }

    /// Takes a page out of its leaf, leaving a shadow or nothing.
    pub(super) fn remove(&mut self, place: LeafEntry, shadow: Option<Shadow>) {
        for tag in Tag::ALL {
            self.clear_tag(place, tag);
        }
        let (leaf, offset) = (place.leaf, place.offset());
        let node = &mut self.nodes[leaf as usize];
        node.entries[offset] = shadow.map_or(Entry::Empty, Entry::Shadow).encode();
        node.present &= !(1 << offset);
        node.shadows |= u64::from(shadow.is_some()) << offset;
        let file = node.file as usize;
        self.shadows += u64::from(shadow.is_some());
        self.files[file].pages -= 1;
        if self.nodes[leaf as usize].is_only_shadows() {
            self.list(leaf);
        }
        self.free_empty(leaf);
    }

    /// Forgets the shadows of the entries `[first, end)`.
    pub(super) fn forget(&mut self, file: FileId, first: PageIndex, end: PageIndex) {
        let root = self.files.get(file.0 as usize).map_or(NONE, |known| known.root);
        if first < end && root != NONE && self.shadows > 0 {
            self.forget_below(root, first.get(), end.get() - 1);
        }
    }

    fn forget_below(&mut self, at: u32, first: u64, last: u64) {
        let node = &self.nodes[at as usize];
        let (base, shift) = (node.first(), SHIFT * node.level());
        let low = if first <= base { 0 } else { (first - base) >> shift };
        let high = if last < base { return } else { ((last - base) >> shift).min(WIDTH - 1) };
        if low >= WIDTH {
            return;
        }
        let range = u64::MAX << low & u64::MAX >> (WIDTH - 1 - high);
        if shift == 0 {
            return self.forget_in(at, range);
        }
        // A node is freed with its last child, which is the last bit here.
        let mut children = node.present & range;
        while children != 0 {
            let offset = children.trailing_zeros();
            children &= children - 1;
            let child = self.nodes[at as usize].entries[offset as usize] - 1;
            self.forget_below(child, first, last);
        }
    }

    fn forget_in(&mut self, leaf: u32, range: u64) {
        let gone = self.nodes[leaf as usize].shadows & range;
        if gone == 0 {
            return;
        }
        let was_listed = self.nodes[leaf as usize].is_only_shadows();
        let node = &mut self.nodes[leaf as usize];
        (0..WIDTH)
            .filter(|offset| gone >> offset & 1 != 0)
            .for_each(|offset| node.entries[offset as usize] = 0);
        node.shadows &= !gone;
        let is_listed = node.is_only_shadows();
        self.shadows -= u64::from(gone.count_ones());
        if was_listed && !is_listed {
            self.unlist(leaf);
        }
        self.free_empty(leaf);
    }

    /// Drops leaves that hold shadows only, oldest first, until at most `leaves` are left.
    pub(super) fn drop_shadows(&mut self, leaves: u64) {
        while self.shadow_leaves > leaves {
            let leaf = self.oldest;
            self.unlist(leaf);
            let node = &mut self.nodes[leaf as usize];
            self.shadows -= u64::from(node.shadows.count_ones());
            node.shadows = 0;
            node.entries = [0; WIDTH as usize];
            self.free_empty(leaf);
        }
    }

    fn list(&mut self, leaf: u32) {
        let old = core::mem::replace(&mut self.newest, leaf);
        (self.nodes[leaf as usize].prev, self.nodes[leaf as usize].next) = (old, NONE);
        if old == NONE {
            self.oldest = leaf;
        } else {
            self.nodes[old as usize].next = leaf;
        }
        self.shadow_leaves += 1;
    }

    fn unlist(&mut self, leaf: u32) {
        let (prev, next) = (self.nodes[leaf as usize].prev, self.nodes[leaf as usize].next);
        if prev == NONE {
            self.oldest = next;
        } else {
            self.nodes[prev as usize].next = next;
        }
        if next == NONE {
            self.newest = prev;
        } else {
            self.nodes[next as usize].prev = prev;
        }
        self.shadow_leaves -= 1;
    }

    /// Frees a node that holds nothing, and the nodes above that hold nothing then.
    fn free_empty(&mut self, mut at: u32) {
        while at != NONE && self.nodes[at as usize].present | self.nodes[at as usize].shadows == 0 {
            let node = &mut self.nodes[at as usize];
            let (parent, first, file) = (node.parent, node.first(), node.file);
            (node.file, node.next) = (NONE, self.free);
            self.free = at;
            self.used -= 1;
            let known = &mut self.files[file as usize];
            if known.last == at {
                known.last = NONE;
            }
            if parent == NONE {
                self.files[file as usize].root = NONE;
                return;
            }
            let node = &mut self.nodes[parent as usize];
            let offset = node.offset(first);
            node.entries[offset as usize] = 0;
            node.present &= !(1 << offset);
            at = parent;
        }
    }

    pub(super) fn set_tag(&mut self, place: LeafEntry, tag: Tag) {
        let (mut at, mut offset) = (place.leaf, u32::from(place.offset));
        loop {
            let node = &mut self.nodes[at as usize];
            let had_any = node.tags[tag as usize] != 0;
            node.tags[tag as usize] |= 1 << offset;
            let (parent, first) = (node.parent, node.first());
            if had_any || parent == NONE {
                return;
            }
            (at, offset) = (parent, self.nodes[parent as usize].offset(first));
        }
    }

    pub(super) fn clear_tag(&mut self, place: LeafEntry, tag: Tag) {
        let (mut at, mut offset) = (place.leaf, u32::from(place.offset));
        loop {
            let node = &mut self.nodes[at as usize];
            if node.tags[tag as usize] >> offset & 1 == 0 {
                return;
            }
            node.tags[tag as usize] &= !(1 << offset);
            let (parent, first) = (node.parent, node.first());
            if node.tags[tag as usize] != 0 || parent == NONE {
                return;
            }
            (at, offset) = (parent, self.nodes[parent as usize].offset(first));
        }
    }

    pub(super) fn has_tag(&self, place: LeafEntry, tag: Tag) -> bool {
        self.nodes[place.leaf as usize].tags[tag as usize] >> place.offset & 1 != 0
    }

    /// Returns the first page at or after `from`; with `tag`, the first that has it.
    pub(super) fn next(
        &self,
        file: FileId,
        from: PageIndex,
        tag: Option<Tag>,
    ) -> Option<(PageIndex, FrameId)> {
        let root = self.files.get(file.0 as usize)?.root;
        if root == NONE {
            return None;
        }
        let mut from = from.get().max(self.nodes[root as usize].first());
        let mut at = root;
        loop {
            let node = &self.nodes[at as usize];
            let wanted = tag.map_or(node.present, |tag| node.tags[tag as usize]);
            let inside = covers(node.first(), node.level(), from);
            let left = if inside { wanted >> node.offset(from) << node.offset(from) } else { 0 };
            if left == 0 {
                // This node has nothing more: continue after it, unless it is the root.
                let shift = SHIFT * (node.level() + 1);
                if node.parent == NONE || shift >= u64::BITS {
                    return None;
                }
                if inside {
                    from =
                        (from >> shift).checked_add(1).filter(|&next| next <= u64::MAX >> shift)?
                            << shift;
                }
                at = node.parent;
                continue;
            }
            let offset = left.trailing_zeros();
            let shift = SHIFT * node.level();
            if offset != node.offset(from) {
                let above = SHIFT * (node.level() + 1);
                let high = if above >= u64::BITS { 0 } else { from >> above << above };
                from = high | u64::from(offset) << shift;
            }
            match node.entries[offset as usize] {
                0 => unreachable!("a bitmap promised an entry"),
                entry if node.level() == 0 => {
                    return Some((PageIndex::new(from), FrameId(entry - 1)));
                }
                child => at = child - 1,
            }
        }
    }

    /// Returns the page at an offset of a leaf.
    pub(super) fn leaf_page(&self, leaf: u32, offset: u32) -> Option<FrameId> {
        let node = &self.nodes[leaf as usize];
        (node.present >> offset & 1 != 0).then(|| FrameId(node.entries[offset as usize] - 1))
    }

    #[inline]
    pub(super) fn key(&self, place: LeafEntry) -> (FileId, PageIndex) {
        let node = &self.nodes[place.leaf as usize];
        (FileId(node.file), PageIndex::new(node.first() | u64::from(place.offset)))
    }

    pub(super) fn file_pages(&self, file: FileId) -> u64 {
        self.files.get(file.0 as usize).map_or(0, |file| file.pages)
    }

    pub(super) const fn shadows(&self) -> u64 {
        self.shadows
    }

    pub(super) const fn shadow_leaves(&self) -> u64 {
        self.shadow_leaves
    }

    /// Returns the number of nodes in use.
    pub(super) const fn used(&self) -> u64 {
        self.used
    }

    /// Returns the number of nodes in use or free: all node numbers are below it.
    pub(super) const fn nodes(&self) -> usize {
        self.nodes.len()
    }

    /// Panics if a node, a bitmap, a count or the list of shadow leaves is wrong.
    pub(super) fn self_check(&self) {
        let (mut used, mut shadows, mut leaves) = (0, 0, 0);
        for (at, file) in self.files.iter().enumerate().filter(|(_, file)| file.root != NONE) {
            assert_eq!(self.nodes[file.root as usize].parent, NONE);
            if let Some(last) = self.nodes.get(file.last as usize) {
                assert_eq!(
                    (last.file as usize, last.base),
                    (at, file.last_first.get()),
                    "the last leaf is stale"
                );
            }
            let mut stack = alloc::vec![file.root];
            let mut pages = 0;
            while let Some(node_at) = stack.pop() {
                let node = &self.nodes[node_at as usize];
                used += 1;
                assert_eq!(node.file as usize, at);
                assert_ne!(node.present | node.shadows, 0, "an empty node is kept");
                assert_eq!(node.present & node.shadows, 0, "a page and a shadow in one entry");
                leaves += u64::from(node.is_only_shadows());
                for offset in 0..WIDTH as u32 {
                    let entry = node.entries[offset as usize];
                    let (present, shadow) =
                        (node.present >> offset & 1 != 0, node.shadows >> offset & 1 != 0);
                    assert_eq!(entry != 0, present || shadow);
                    assert!(
                        present
                            || Tag::ALL
                                .iter()
                                .all(|&tag| node.tags[tag as usize] >> offset & 1 == 0)
                    );
                    assert!(node.level() == 0 || !shadow);
                    shadows += u64::from(shadow);
                    pages += u64::from(present && node.level() == 0);
                    if present && node.level() > 0 {
                        let child = &self.nodes[entry as usize - 1];
                        assert_eq!((child.parent, child.level() + 1), (node_at, node.level()));
                        assert_eq!(node.offset(child.first()), offset);
                        for tag in Tag::ALL {
                            let below = child.tags[tag as usize] != 0;
                            assert_eq!(
                                node.tags[tag as usize] >> offset & 1 != 0,
                                below,
                                "{tag:?}"
                            );
                        }
                        stack.push(entry - 1);
                    }
                }
            }
            assert_eq!(pages, file.pages);
        }
        assert_eq!((used, shadows, leaves), (self.used, self.shadows, self.shadow_leaves));
        let (mut at, mut last, mut listed) = (self.oldest, NONE, 0);
        while at != NONE {
            let node = &self.nodes[at as usize];
            assert!(node.is_only_shadows() && node.prev == last && node.level() == 0);
            (last, at, listed) = (at, node.next, listed + 1);
        }
        assert_eq!((listed, last), (self.shadow_leaves, self.newest));
    }
}
