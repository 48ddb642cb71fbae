//! What a client is sent.

use elevon_host::Outgoing;

use crate::device::backpressure::Amount;

/// Bytes of answers without data that may wait to be sent, beyond which nothing more is read: a
/// client cannot have the server keep refusals that it does not take.
const MAX_ANSWER_BYTES: usize = 64 << 10;

/// The replies of a client.
#[derive(Debug)]
pub(crate) struct Replies {
    /// What is to be sent next.
    pub(crate) next: Outgoing,
    /// The requests that it answers.
    next_amount: Amount,
    sender: Sender,
}

/// What the line of a client sends.
#[derive(Debug)]
enum Sender {
    /// Nothing. There is memory for what is sent after the next.
    Idle { spare: Outgoing },
    /// Replies, which answer so many requests. `checks` counts checks
    /// ([`super::Client::count_check`]) since they were handed over.
    Busy { answered: Amount, checks: u32 },
}

impl Default for Replies {
    fn default() -> Self {
        let sender = Sender::Idle { spare: Outgoing::default() };
        Self { next: Outgoing::default(), next_amount: Amount::default(), sender }
    }
}

impl Replies {
    /// Counts what a reply answers that was appended to [`Self::next`].
    pub(super) fn count(&mut self, bytes: u64) {
        self.next_amount.add(bytes);
    }

    /// Returns true if replies are on their way.
    pub(crate) const fn are_on_their_way(&self) -> bool {
        matches!(self.sender, Sender::Busy { .. })
    }

    /// Returns true if so few bytes wait to be sent that more may be added.
    pub(super) fn have_room(&self) -> bool {
        self.next.heads.len() < MAX_ANSWER_BYTES
    }

    /// Begins to send what is next. Returns memory for it; `None` if others are on their way or
    /// there is nothing.
    pub(crate) fn begin(&mut self) -> Option<Outgoing> {
        if self.next.is_empty() {
            return None;
        }
        let Sender::Idle { spare } = &mut self.sender else { return None };
        let spare = std::mem::take(spare);
        self.sender = Sender::Busy { answered: std::mem::take(&mut self.next_amount), checks: 0 };
        Some(spare)
    }

    /// What was sent has arrived, or never does: `spare` is its memory. Returns what it answered.
    ///
    /// # Panics
    /// If nothing is on its way.
    pub(super) fn end(&mut self, spare: Outgoing) -> Amount {
        match std::mem::replace(&mut self.sender, Sender::Idle { spare }) {
            Sender::Busy { answered, .. } => answered,
            Sender::Idle { .. } => panic!("no replies are on their way"),
        }
    }

    /// Drops what is to be sent next. Returns what it would have answered.
    pub(super) fn drop_next(&mut self) -> Amount {
        self.next.clear();
        std::mem::take(&mut self.next_amount)
    }

    /// Gives back the memory for what is sent after the next.
    pub(super) fn give_back_spare(&mut self) {
        if let Sender::Idle { spare } = &mut self.sender {
            *spare = Outgoing::default();
        }
    }

    /// Counts a check.
    pub(super) const fn count_check(&mut self) {
        if let Sender::Busy { checks, .. } = &mut self.sender {
            *checks += 1;
        }
    }

    /// Returns the checks since the replies on their way were handed over.
    pub(super) const fn checks(&self) -> u32 {
        match self.sender {
            Sender::Busy { checks, .. } => checks,
            Sender::Idle { .. } => 0,
        }
    }

    /// Returns how many bytes of heads its lists have room for.
    #[cfg(test)]
    pub(crate) fn capacity(&self) -> usize {
        let of_spare = match &self.sender {
            Sender::Idle { spare } => spare.heads.capacity(),
            Sender::Busy { .. } => 0,
        };
        self.next.heads.capacity() + of_spare
    }
}
