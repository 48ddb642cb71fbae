//! What is in progress.

use super::{Life, Request};

impl Life {
    /// Returns the numbers of bios and requests in progress.
    pub(in crate::analysis) fn under_way(&self) -> (usize, usize) {
        (self.bios.len() - self.free_bios.len(), self.requests.len() - self.free_requests.len())
    }

    /// Returns the numbers of selected bios and requests in progress.
    pub(in crate::analysis) fn selected_under_way(&self) -> (usize, usize) {
        let mut is_free = vec![false; self.bios.len()];
        self.free_bios.iter().for_each(|&id| is_free[id as usize] = true);
        let bios =
            self.bios.iter().zip(is_free).filter(|(bio, is_free)| !is_free && bio.is_selected);
        (bios.count(), self.requests().into_iter().filter(|request| request.is_selected).count())
    }

    /// Returns the requests in progress.
    pub(in crate::analysis) fn requests(&self) -> Vec<&Request> {
        let mut is_free = vec![false; self.requests.len()];
        self.free_requests.iter().for_each(|&id| is_free[id as usize] = true);
        self.requests
            .iter()
            .zip(is_free)
            .filter(|(_, is_free)| !is_free)
            .map(|(request, _)| request)
            .collect()
    }
}
