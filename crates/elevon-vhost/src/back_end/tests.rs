use proptest::prelude::*;

use super::*;

/// Returns a message of the front end: header and payload.
fn message(request: u32, payload: &[u8]) -> ([u8; HEADER_BYTES], Vec<u8>) {
    let words = [request, 1 | 8, payload.len() as u32].map(u32::to_ne_bytes);
    (words.concat().try_into().expect("twelve bytes"), payload.to_vec())
}

fn back_end() -> BackEnd {
    let offer = Offer { config: vec![1, 2, 3, 4], queues: 2, ..Offer::default() };
    BackEnd::new(offer)
}

fn handle(request: u32, payload: &[u8], fds: usize) -> Result<(Vec<u8>, Action), ProtocolError> {
    let (header, payload) = message(request, payload);
    back_end().handle(&header, &payload, fds)
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// The acknowledgement of `request`.
fn acknowledgement(request: u32) -> Vec<u8> {
    [words(&[request, 5, 8]), vec![0; 8]].concat()
}

#[test]
fn features_are_offered_and_only_those_can_be_taken() {
    let (answer, _) = handle(request::GET_FEATURES, &[], 0).expect("an answer");
    assert_eq!(u64_at(&answer, HEADER_BYTES), FEATURE_VERSION_1 | FEATURE_PROTOCOL_FEATURES);
    let taken = handle(request::SET_FEATURES, &FEATURE_VERSION_1.to_ne_bytes(), 0);
    let features = Action::Features(FEATURE_VERSION_1);
    assert_eq!(taken, Ok((acknowledgement(request::SET_FEATURES), features)));
    let refused = handle(request::SET_FEATURES, &(1_u64 << 5).to_ne_bytes(), 0);
    assert!(matches!(refused, Err(ProtocolError::Value { .. })), "{refused:?}");
}

#[test]
fn the_configuration_space_reads_as_zeroes_beyond_its_end() {
    let payload = [words(&[2, 4, 0]), vec![9; 4]].concat();
    let (answer, _) = handle(request::GET_CONFIG, &payload, 0).expect("an answer");
    assert_eq!(&answer[HEADER_BYTES + CONFIG_HEAD..], [3, 4, 0, 0]);
}

#[test]
fn a_memory_table_needs_a_descriptor_for_each_region() {
    let region = [0_u64, 4096, 1 << 40, 0].iter().flat_map(|word| word.to_ne_bytes());
    let payload: Vec<u8> = words(&[1, 0]).into_iter().chain(region).collect();
    let region = Region { guest: 0, bytes: 4096, user: 1 << 40, offset: 0 };
    let (_, action) = handle(request::SET_MEM_TABLE, &payload, 1).expect("an action");
    assert_eq!(action, Action::Map(vec![region]));
    let refused = handle(request::SET_MEM_TABLE, &payload, 0);
    assert!(matches!(refused, Err(ProtocolError::Descriptors { needed: 1, .. })), "{refused:?}");
}

#[test]
fn rings_are_set_up_kicked_and_stopped() {
    let action = |request, payload: &[u8], fds| handle(request, payload, fds).expect("an action").1;
    assert_eq!(action(request::SET_VRING_NUM, &words(&[1, 128]), 0), Action::Size(1, 128));
    assert_eq!(action(request::VRING_KICK, &words(&[1, 0]), 0), Action::Kick(1));
    let none = (NO_DESCRIPTOR | 1).to_ne_bytes();
    assert_eq!(action(request::SET_VRING_CALL, &none, 0), Action::Call(1));
    assert_eq!(action(request::SET_VRING_KICK, &1_u64.to_ne_bytes(), 1), Action::Start(1));
    let (answer, stop) = handle(request::GET_VRING_BASE, &words(&[0, 0]), 0).expect("an action");
    assert_eq!((answer, stop), (Vec::new(), Action::Stop(0)));
    let answer = back_end().base_answer(0, 7);
    assert_eq!(answer, words(&[request::GET_VRING_BASE, 5, 8, 0, 7]));
    for (request, payload) in
        [(request::VRING_KICK, words(&[2, 0])), (request::SET_VRING_NUM, words(&[0, 100]))]
    {
        let refused = handle(request, &payload, 0);
        assert!(matches!(refused, Err(ProtocolError::Value { .. })), "{refused:?}");
    }
}

#[test]
fn other_messages_and_versions_are_refused() {
    let refused = handle(99, &[], 0);
    assert_eq!(refused, Err(ProtocolError::Unsupported { request: 99 }));
    let header: [u8; HEADER_BYTES] = words(&[1, 2, 0]).try_into().expect("twelve bytes");
    let refused = back_end().handle(&header, &[], 0);
    assert_eq!(refused, Err(ProtocolError::Version { request: 1, version: 2 }));
}

proptest! {
    /// An answer is one whole message with the number of the question.
    #[test]
    fn any_message_is_answered_or_refused(
        request in 0_u32..40,
        payload in prop::collection::vec(any::<u8>(), 0..80),
        fds in 0_usize..3,
    ) {
        if let Ok((answer, _)) = handle(request, &payload, fds)
            && !answer.is_empty()
        {
            let header = Header::parse(answer[..HEADER_BYTES].try_into().expect("a header"));
            let header = header.expect("an answer");
            prop_assert!(header.is_reply && header.request == request);
            prop_assert_eq!(header.bytes as usize, answer.len() - HEADER_BYTES);
        }
    }
}
