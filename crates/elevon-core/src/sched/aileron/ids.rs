//! What queues, members and groups are known by.

/// A queue, by index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct QueueId(pub(super) u32);

impl QueueId {
    /// No queue: there is none with this index.
    pub(super) const NONE: Self = Self(u32::MAX);

    pub(super) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A member of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct MemberId(pub(super) u32);

impl MemberId {
    pub(super) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GroupId(pub(super) u32);

impl GroupId {
    /// The group of everything.
    pub(super) const ROOT: Self = Self(0);
    pub(super) const fn index(self) -> usize {
        self.0 as usize
    }
}
