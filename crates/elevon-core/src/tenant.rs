//! Tenants: the tree of cgroups that are charged for I/O.
//!
//! Only the tree is here; the settings of a tenant are stored by each policy under its
//! [`TenantId`]. Cost: adding and removing O(1), a walk to the root O(depth). 16 bytes per tenant.

extern crate alloc;
use alloc::vec::Vec;

use crate::units::TenantId;

/// The root. Limits, weights and targets do not apply to it; I/O without another tenant is charged
/// to it.
pub const ROOT: TenantId = TenantId(0);

/// Maximum depth of the tree; the kernel's own limit is configurable and much higher than is used
/// in practice.
pub const MAX_DEPTH: u16 = 64;

/// Why a tenant could not be added or removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TenantError {
    /// There is no such tenant, or it was removed.
    Unknown,
    /// The root cannot be removed.
    Root,
    /// The tenant still has children (EBUSY).
    HasChildren,
    /// The tenant would be deeper than [`MAX_DEPTH`].
    TooDeep,
}

impl core::fmt::Display for TenantError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Unknown => "no such tenant",
            Self::Root => "the root cannot be removed",
            Self::HasChildren => "the tenant still has children: remove them first",
            Self::TooDeep => "tenants nest at most 64 deep",
        })
    }
}
impl core::error::Error for TenantError {}

#[derive(Clone, Copy, Debug)]
struct TenantNode {
    parent: TenantId,
    /// Number of living children.
    children: u32,
    depth: u16,
    alive: bool,
}

/// The tree. Ids are dense and are not used again: late I/O of a removed tenant must find a living
/// ancestor.
#[derive(Clone, Debug)]
pub struct Tenants {
    nodes: Vec<TenantNode>,
    living: u32,
}

impl Default for Tenants {
    fn default() -> Self {
        Self::new()
    }
}

impl Tenants {
    /// Returns a tree with the root only.
    pub fn new() -> Self {
        Self {
            nodes: alloc::vec![TenantNode { parent: ROOT, children: 0, depth: 0, alive: true }],
            living: 1,
        }
    }

    /// Adds a tenant below another.
    ///
    /// # Errors
    /// The parent is unknown or removed, or the tenant would be deeper than [`MAX_DEPTH`]. Nothing
    /// is changed in this case.
    pub fn add(&mut self, parent: TenantId) -> Result<TenantId, TenantError> {
        let above = self
            .nodes
            .get_mut(parent.index())
            .filter(|node| node.alive)
            .ok_or(TenantError::Unknown)?;
        if above.depth >= MAX_DEPTH {
            return Err(TenantError::TooDeep);
        }
        above.children += 1;
        let depth = above.depth + 1;
        self.nodes.push(TenantNode { parent, children: 0, depth, alive: true });
        self.living += 1;
        Ok(TenantId((self.nodes.len() - 1) as u32))
    }

    /// Removes a tenant without children. Its late I/O is charged to the nearest living ancestor.
    ///
    /// # Errors
    /// The tenant is the root, unknown or removed, or has children. Nothing is changed in this
    /// case.
    pub fn remove(&mut self, tenant: TenantId) -> Result<(), TenantError> {
        if tenant == ROOT {
            return Err(TenantError::Root);
        }
        let node = self
            .nodes
            .get_mut(tenant.index())
            .filter(|node| node.alive)
            .ok_or(TenantError::Unknown)?;
        if node.children > 0 {
            return Err(TenantError::HasChildren);
        }
        node.alive = false;
        let parent = node.parent;
        self.nodes[parent.index()].children -= 1;
        self.living -= 1;
        Ok(())
    }

    /// Returns the tenant that is charged for a tenant's I/O: itself if it is living, else the
    /// nearest living ancestor. For an unknown id it is the root.
    #[inline]
    pub fn charged(&self, tenant: TenantId) -> TenantId {
        let mut at = tenant;
        loop {
            match self.nodes.get(at.index()) {
                Some(node) if node.alive => return at,
                Some(node) => at = node.parent,
                None => return ROOT,
            }
        }
    }

    /// Returns the parent; `None` for the root and for unknown ids.
    #[inline]
    pub fn parent(&self, tenant: TenantId) -> Option<TenantId> {
        if tenant == ROOT { None } else { self.nodes.get(tenant.index()).map(|node| node.parent) }
    }

    /// Iterates over the tenant and its ancestors, upwards, without the root.
    #[inline]
    pub fn path(&self, tenant: TenantId) -> impl Iterator<Item = TenantId> + '_ {
        core::iter::successors(Some(tenant), |&at| self.parent(at)).take_while(|&at| at != ROOT)
    }

    /// Returns true if `tenant` is `ancestor` or is below it.
    pub fn is_below(&self, tenant: TenantId, ancestor: TenantId) -> bool {
        ancestor == ROOT || self.path(tenant).any(|at| at == ancestor)
    }

    /// Returns the number of tenants on the path to the root, including this one; 0 for the root.
    pub fn depth(&self, tenant: TenantId) -> u16 {
        self.nodes.get(tenant.index()).map_or(0, |node| node.depth)
    }

    /// Returns true if the tenant exists and was not removed.
    #[inline]
    pub fn is_alive(&self, tenant: TenantId) -> bool {
        self.nodes.get(tenant.index()).is_some_and(|node| node.alive)
    }

    /// Returns the number of ids given out so far, including the root and removed tenants: every id
    /// is lower.
    #[inline]
    pub fn ids(&self) -> usize {
        self.nodes.len()
    }

    /// Returns the number of living tenants, including the root.
    pub fn living(&self) -> usize {
        self.living as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_io_of_a_removed_tenant_is_charged_to_the_nearest_living_ancestor() {
        let mut tree = Tenants::new();
        let a = tree.add(ROOT).unwrap();
        let b = tree.add(a).unwrap();
        let c = tree.add(b).unwrap();
        assert_eq!((tree.depth(c), tree.charged(c)), (3, c));
        assert!(tree.path(c).eq([c, b, a]));
        assert!(tree.is_below(c, a) && tree.is_below(c, ROOT) && !tree.is_below(a, c));
        assert_eq!(tree.remove(b), Err(TenantError::HasChildren));
        assert_eq!((tree.remove(c), tree.remove(b)), (Ok(()), Ok(())));
        assert_eq!((tree.charged(c), tree.charged(b), tree.living()), (a, a, 2));
        assert_eq!(
            (tree.remove(c), tree.remove(ROOT)),
            (Err(TenantError::Unknown), Err(TenantError::Root))
        );
        assert_eq!((tree.add(b), tree.charged(TenantId(99))), (Err(TenantError::Unknown), ROOT));
        assert_ne!(tree.add(a).unwrap(), c, "ids are not used again");
    }

    #[test]
    fn a_tree_has_a_bottom() {
        let mut tree = Tenants::new();
        let deepest = (0..MAX_DEPTH).fold(ROOT, |at, _| tree.add(at).unwrap());
        assert_eq!(tree.add(deepest), Err(TenantError::TooDeep));
    }
}
