//! Any bytes as what a front end of vhost-user sends, message after message: an answer is one whole
//! message with the number of its question, and no action names a ring that was not offered or a
//! part of the memory that goes beyond the address space.

use elevon_vhost::{
    Action, BackEnd, HEADER_BYTES, Header, Offer, PROTOCOL_INFLIGHT, PROTOCOL_MEMORY_SLOTS,
};

const QUEUES: u16 = 2;

pub(crate) fn vhost(data: &[u8]) {
    let mut offer = Offer { queues: QUEUES, config: vec![7; 60], ..Offer::default() };
    offer.protocol_features |= PROTOCOL_INFLIGHT | PROTOCOL_MEMORY_SLOTS;
    let back_end = BackEnd::new(offer);
    let mut rest = data;
    while let Some((head, behind)) = rest.split_first_chunk::<HEADER_BYTES>() {
        let Ok(header) = Header::parse(head) else { return };
        let Some((payload, behind)) = behind.split_at_checked(header.bytes as usize) else {
            return;
        };
        // As many descriptors as messages have: by their numbers, so that all occur.
        let fds = (header.request % 3) as usize;
        let Ok((answer, action)) = back_end.handle(head, payload, fds) else { return };
        check_answer(&answer, header);
        check_action(&action);
        rest = behind;
    }
}

fn check_answer(answer: &[u8], question: Header) {
    let Some((head, payload)) = answer.split_first_chunk::<HEADER_BYTES>() else {
        assert!(answer.is_empty(), "a part of a header");
        return;
    };
    let header = Header::parse(head).expect("an answer of the protocol");
    assert!(header.is_reply && header.request == question.request);
    assert_eq!(header.bytes as usize, payload.len());
}

fn check_action(action: &Action) {
    match action {
        Action::Size(ring, _)
        | Action::Place(ring, _)
        | Action::Base(ring, _)
        | Action::Stop(ring)
        | Action::Start(ring)
        | Action::Call(ring)
        | Action::Enable(ring, _)
        | Action::Kick(ring) => assert!(*ring < QUEUES),
        Action::Map(regions) => {
            for region in regions {
                assert!(region.bytes > 0 && region.guest.checked_add(region.bytes).is_some());
            }
        }
        Action::AddRegion(region) | Action::RemoveRegion(region) => {
            assert!(region.bytes > 0 && region.guest.checked_add(region.bytes).is_some());
        }
        Action::MakeInflight(place) | Action::TakeInflight(place) => {
            assert!((1..=QUEUES).contains(&place.queues) && place.size > 0);
        }
        Action::Features(_) => {}
        Action::None | Action::Channel | Action::WriteConfig(..) | Action::Reset => {}
    }
}
