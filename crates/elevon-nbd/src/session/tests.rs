use proptest::prelude::*;

use super::*;
use crate::request::Command;
use crate::wire::{REQUEST, flag};

struct Disks;

impl Exports for Disks {
    fn names(&self) -> Vec<String> {
        vec!["fast".into(), "slow".into()]
    }
    fn export(&self, name: &str) -> Result<Export, Refusal> {
        match name {
            "" | "fast" => {
                Ok(Export { description: "the fast one".into(), ..Export::new(1 << 30) })
            }
            "slow" => Ok(Export { block: 512, ..Export::new(1 << 20) }),
            "large blocks" => Ok(Export { block: 4096, ..Export::new(1 << 20) }),
            "full" => Ok(Export::new(1 << 20)),
            "secret" => Err(Refusal::Policy),
            _ => Err(Refusal::Unknown),
        }
    }
    fn listed_name(&self, name: &str) -> String {
        if name.is_empty() { "fast".into() } else { name.into() }
    }
    fn open(&self, name: &str) -> Result<Export, Refusal> {
        if name == "full" { Err(Refusal::Full) } else { self.export(name) }
    }
}

/// A client that says what a test says, and collects the steps.
struct Client {
    session: Session,
    input: Vec<u8>,
}

impl Client {
    fn new(tls: Tls) -> Self {
        Self::with_flags(tls, 3)
    }

    fn with_flags(tls: Tls, flags: u8) -> Self {
        let mut session = Session::new(SessionConfig { tls, ..SessionConfig::default() });
        session.take_output();
        let mut client = Self { session, input: Vec::new() };
        assert_eq!(client.say(&[0, 0, 0, flags]), Step::More);
        client
    }

    /// Sends bytes and takes steps until one is more than [`Step::Continue`].
    fn say(&mut self, bytes: &[u8]) -> Step {
        self.input.extend_from_slice(bytes);
        loop {
            let (used, step) = self.session.step(&self.input, &Disks);
            self.input.drain(..used);
            if step != Step::Continue {
                return step;
            }
        }
    }

    /// Sends a request that is refused.
    #[track_caller]
    fn refused(&mut self, bytes: &[u8], command: Command, reason: Reason) {
        assert_eq!(self.say(bytes), Step::Refused { command: Some(command), reason });
    }

    fn option(&mut self, kind: u32, payload: &[u8]) -> Step {
        let mut bytes = Vec::new();
        bytes.u64(IHAVEOPT);
        bytes.u32(kind);
        bytes.u32(payload.len() as u32);
        bytes.extend_from_slice(payload);
        self.say(&bytes)
    }

    /// Takes the answers to options: option, type, payload.
    fn answers(&mut self) -> Vec<(u32, u32, Vec<u8>)> {
        let output = self.session.take_output();
        let mut fields = Fields(&output);
        let mut all = Vec::new();
        while fields.u64().is_some() {
            let (option, kind) = (fields.u32().expect("an option"), fields.u32().expect("a type"));
            all.push((option, kind, fields.string().expect("a payload").to_vec()));
        }
        all
    }

    fn kinds(&mut self) -> Vec<u32> {
        self.answers().into_iter().map(|(_, kind, _)| kind).collect()
    }

    fn go(&mut self, name: &str) {
        let step = self.option(option::GO, &asked(name, &[3]));
        assert_eq!(step, Step::Opened(name.into()));
        self.session.take_output();
    }
}

fn asked(name: &str, items: &[u16]) -> Vec<u8> {
    let mut payload = Vec::new();
    payload.u32(name.len() as u32);
    payload.extend_from_slice(name.as_bytes());
    payload.u16(items.len() as u16);
    items.iter().for_each(|item| payload.u16(*item));
    payload
}

fn queries(name: &str, queries: &[&str]) -> Vec<u8> {
    let mut payload = Vec::new();
    payload.u32(name.len() as u32);
    payload.extend_from_slice(name.as_bytes());
    payload.u32(queries.len() as u32);
    for query in queries {
        payload.u32(query.len() as u32);
        payload.extend_from_slice(query.as_bytes());
    }
    payload
}

fn request(command: u16, flags: u16, offset: u64, length: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.u32(REQUEST);
    bytes.u16(flags);
    bytes.u16(command);
    bytes.u64(0xc00c1e);
    bytes.u64(offset);
    bytes.u32(length);
    bytes
}

#[test]
fn the_greeting_is_fixed_newstyle() {
    let mut session = Session::new(SessionConfig::default());
    let greeting = session.take_output();
    assert_eq!(greeting, b"NBDMAGICIHAVEOPT\0\x03");
    for flags in [4_u32, 4 | 1, 1 << 31] {
        let mut session = Session::new(SessionConfig::default());
        let (_, step) = session.step(&flags.to_be_bytes(), &Disks);
        assert_eq!(step, Step::Close(Close::NotNewstyle(flags)), "{flags}");
    }
}

#[test]
fn a_client_of_plain_newstyle_opens_an_export_by_its_name_and_has_no_other_option() {
    for (flags, zeroes) in [(0, 124), (2, 0)] {
        let mut client = Client::with_flags(Tls::Off, flags);
        assert_eq!(client.option(option::EXPORT_NAME, b"slow"), Step::Opened("slow".into()));
        let output = client.session.take_output();
        assert_eq!(output.len(), 10 + zeroes, "size, flags, zeroes");
        assert_eq!(output[..8], (1_u64 << 20).to_be_bytes());
        assert!(matches!(client.say(&request(command::READ, 0, 0, 512)), Step::Request(_)));
    }
    // No answer to an option is sent, which such a client would take for that to EXPORT_NAME.
    for (kind, why) in [
        (option::LIST, Close::PlainOption(option::LIST)),
        (option::GO, Close::PlainOption(option::GO)),
        (option::STARTTLS, Close::PlainOption(option::STARTTLS)),
        (option::ABORT, Close::Left),
    ] {
        let mut client = Client::with_flags(Tls::Offered, 0);
        assert_eq!(client.option(kind, b""), Step::Close(why));
        assert!(!client.session.has_output());
    }
    let mut client = Client::with_flags(Tls::Required, 0);
    let why = Close::ExportName(Refusal::NeedsTls);
    assert_eq!(client.option(option::EXPORT_NAME, b"slow"), Step::Close(why));
}

#[test]
fn an_export_that_as_many_as_may_have_open_is_described_and_not_opened() {
    let mut client = Client::new(Tls::Off);
    assert_eq!(client.option(option::INFO, &asked("full", &[])), Step::More);
    assert_eq!(client.kinds(), [answer::INFO, answer::ACK]);
    assert_eq!(client.option(option::GO, &asked("full", &[])), Step::More);
    assert_eq!(client.answers(), [(option::GO, answer::POLICY, b"too many connections".to_vec())]);
    // It may have another.
    client.go("slow");
    let mut client = Client::new(Tls::Off);
    assert_eq!(
        client.option(option::EXPORT_NAME, b"full"),
        Step::Close(Close::ExportName(Refusal::Full))
    );
}

#[test]
fn exports_are_listed_with_their_descriptions() {
    let mut client = Client::new(Tls::Off);
    client.option(option::LIST, b"");
    let answers = client.answers();
    let wanted = [&4_u32.to_be_bytes()[..], b"fastthe fast one"].concat();
    assert_eq!(answers[0], (option::LIST, answer::SERVER, wanted));
    assert_eq!((answers[1].1, answers[2].1), (answer::SERVER, answer::ACK));
    client.option(option::LIST, b"x");
    assert_eq!(client.kinds(), [answer::INVALID]);
}

#[test]
fn go_tells_what_was_asked_and_opens() {
    let mut client = Client::new(Tls::Off);
    let step = client.option(option::GO, &asked("slow", &[3, 1]));
    assert_eq!(step, Step::Opened("slow".into()));
    let answers = client.answers();
    let kinds: Vec<u32> = answers.iter().map(|(_, kind, _)| *kind).collect();
    assert_eq!(kinds, [answer::INFO, answer::INFO, answer::INFO, answer::ACK]);
    assert_eq!(answers[0].2[..10], [0, 0, 0, 0, 0, 0, 0, 16, 0, 0]);
    assert_eq!(
        answers[1].2,
        [&[0, 3, 0, 0, 2, 0, 0, 0, 16, 0][..], &(32_u32 << 20).to_be_bytes()].concat()
    );
    assert_eq!(answers[2].2, b"\0\x01slow");
}

#[test]
fn info_opens_nothing_and_refusals_say_why() {
    let mut client = Client::new(Tls::Off);
    assert_eq!(client.option(option::INFO, &asked("fast", &[])), Step::More);
    assert_eq!(client.kinds(), [answer::INFO, answer::ACK]);
    for (name, kind) in [("secret", answer::POLICY), ("none", answer::UNKNOWN)] {
        client.option(option::GO, &asked(name, &[]));
        assert_eq!(client.kinds(), [kind]);
    }
}

/// By the protocol a client that did not ask for block sizes may ask for any range of bytes.
#[test]
fn only_who_was_told_the_block_sizes_is_held_to_them() {
    let part = request(command::READ, 0, 7, 100);
    let mut client = Client::new(Tls::Off);
    client.option(option::INFO, &asked("large blocks", &[3]));
    client.session.take_output();
    assert_eq!(
        client.option(option::GO, &asked("large blocks", &[])),
        Step::Opened("large blocks".into())
    );
    assert_eq!(client.kinds(), [answer::INFO, answer::ACK]);
    assert!(matches!(client.say(&part), Step::Request(Request { offset: 7, length: 100, .. })));
    let mut client = Client::new(Tls::Off);
    client.option(option::EXPORT_NAME, b"large blocks");
    assert!(matches!(client.say(&part), Step::Request(Request { offset: 7, length: 100, .. })));
    let mut client = Client::new(Tls::Off);
    client.go("large blocks");
    client.refused(&part, Command::Read, Reason::Unaligned);
}

#[test]
fn export_name_cannot_be_refused_in_words() {
    let mut client = Client::new(Tls::Off);
    assert_eq!(client.option(option::EXPORT_NAME, b"fast"), Step::Opened("fast".into()));
    assert_eq!(client.session.take_output().len(), 10, "the client asked for no zeroes");
    let mut client = Client::new(Tls::Off);
    assert_eq!(
        client.option(option::EXPORT_NAME, b"none"),
        Step::Close(Close::ExportName(Refusal::Unknown))
    );
    let mut old = Session::new(SessionConfig::default());
    old.take_output();
    let (used, _) = old.step(&[0, 0, 0, 1], &Disks);
    assert_eq!(used, 4);
    let bytes =
        [&IHAVEOPT.to_be_bytes()[..], &1_u32.to_be_bytes(), &4_u32.to_be_bytes(), b"fast"].concat();
    old.step(&bytes, &Disks);
    assert_eq!(old.take_output().len(), 134);
}

#[test]
fn contexts_need_structured_replies_and_mean_one_export() {
    let all = |client: &mut Client, export: &str| {
        client.option(option::SET_META_CONTEXT, &queries("fast", &["base:allocation", "other:x"]));
        client.option(option::GO, &asked(export, &[3]));
        client.session.take_output();
        client.say(&request(command::BLOCK_STATUS, 0, 0, 512))
    };
    let mut client = Client::new(Tls::Off);
    client.option(option::SET_META_CONTEXT, &queries("fast", &["base:allocation"]));
    assert_eq!(client.kinds(), [answer::INVALID]);
    client.option(option::STRUCTURED_REPLY, b"");
    client.option(option::LIST_META_CONTEXT, &queries("fast", &[]));
    assert_eq!(client.kinds(), [answer::ACK, answer::META_CONTEXT, answer::ACK]);
    client.option(option::LIST_META_CONTEXT, &queries("fast", &["base:", "x:"]));
    assert_eq!(client.kinds(), [answer::META_CONTEXT, answer::ACK]);
    let mut other = Client { session: client.session.clone(), input: Vec::new() };
    assert!(matches!(
        all(&mut client, "fast"),
        Step::Request(Request { command: Command::BlockStatus { .. }, .. })
    ));
    // The context is that of another export; the request is refused.
    let status = Command::BlockStatus { one: false };
    assert_eq!(
        all(&mut other, "slow"),
        Step::Refused { command: Some(status), reason: Reason::Command }
    );
    assert_eq!(other.session.take_output()[20..24], [0, 0, 0, 22]);
}

#[test]
fn a_set_that_fails_forgets_the_context_before() {
    let mut client = Client::new(Tls::Off);
    client.option(option::STRUCTURED_REPLY, b"");
    client.option(option::SET_META_CONTEXT, &queries("fast", &["base:allocation"]));
    client.option(option::SET_META_CONTEXT, &queries("none", &["base:allocation"]));
    client.go("fast");
    let status = Command::BlockStatus { one: false };
    client.refused(&request(command::BLOCK_STATUS, 0, 0, 512), status, Reason::Command);
}

#[test]
fn what_was_agreed_before_tls_is_forgotten() {
    let mut client = Client::new(Tls::Offered);
    client.option(option::STRUCTURED_REPLY, b"");
    client.session.take_output();
    assert_eq!(client.option(option::STARTTLS, b""), Step::StartTls);
    client.session.on_tls();
    assert!(client.session.is_tls());
    client.session.take_output();
    client.option(option::LIST_META_CONTEXT, &queries("fast", &[]));
    assert_eq!(client.kinds(), [answer::INVALID], "structured replies are to be asked for again");
    client.option(option::STARTTLS, b"");
    assert_eq!(client.kinds(), [answer::INVALID], "twice");
}

#[test]
fn headers_and_contexts_that_were_agreed_on_before_tls_are_forgotten() {
    let mut client = Client::new(Tls::Offered);
    client.option(option::EXTENDED_HEADERS, b"");
    client.option(option::SET_META_CONTEXT, &queries("fast", &["base:allocation"]));
    assert_eq!(client.option(option::STARTTLS, b"x"), Step::More);
    assert_eq!(client.kinds().last(), Some(&answer::INVALID), "a payload");
    assert!(!client.session.is_tls());
    client.option(option::STARTTLS, b"");
    client.session.on_tls();
    client.session.take_output();
    client.option(option::STRUCTURED_REPLY, b"");
    client.go("fast");
    client.session.take_output();
    // Headers are compact again, and there is no context.
    let status = Command::BlockStatus { one: false };
    client.refused(&request(command::BLOCK_STATUS, 0, 0, 512), status, Reason::Command);
    assert!(client.session.has_output(), "an error in a reply");
    assert!(matches!(client.say(&request(command::READ, 0, 0, 512)), Step::Request(_)));
}

#[test]
fn with_tls_a_server_that_requires_it_gives_everything() {
    let mut client = Client::new(Tls::Required);
    client.option(option::STRUCTURED_REPLY, b"");
    assert_eq!(client.kinds(), [answer::TLS_REQUIRED]);
    assert_eq!(client.option(option::STARTTLS, b""), Step::StartTls);
    client.session.on_tls();
    client.session.take_output();
    client.option(option::LIST, b"");
    assert_eq!(client.kinds(), [answer::SERVER, answer::SERVER, answer::ACK]);
    assert_eq!(client.option(option::EXPORT_NAME, b"fast"), Step::Opened("fast".into()));
}

#[test]
fn without_tls_a_server_that_requires_it_gives_nothing() {
    let mut client = Client::new(Tls::Required);
    for kind in [option::LIST, option::INFO, option::GO, option::STRUCTURED_REPLY, 77] {
        client.option(kind, b"");
        assert_eq!(client.kinds(), [answer::TLS_REQUIRED], "{kind}");
    }
    let mut client = Client::new(Tls::Required);
    assert_eq!(
        client.option(option::EXPORT_NAME, b"fast"),
        Step::Close(Close::ExportName(Refusal::NeedsTls))
    );
    let mut client = Client::new(Tls::Required);
    assert_eq!(client.option(option::ABORT, b""), Step::Close(Close::Left));
    let mut client = Client::new(Tls::Off);
    client.option(option::STARTTLS, b"");
    assert_eq!(client.kinds(), [answer::UNSUPPORTED]);
}

#[test]
fn plain_bytes_behind_starttls_end_the_connection() {
    let mut client = Client::new(Tls::Offered);
    let starttls =
        [&IHAVEOPT.to_be_bytes()[..], &5_u32.to_be_bytes(), &0_u32.to_be_bytes(), b"!"].concat();
    assert_eq!(client.say(&starttls), Step::Close(Close::PlainBehindTls));
}

#[test]
fn long_options_are_read_past_and_many_end_the_connection() {
    let mut client = Client::new(Tls::Off);
    client.option(option::LIST, &vec![0; OPTION_MAX as usize + 1]);
    assert_eq!(client.kinds(), [answer::TOO_BIG]);
    for _ in 0..5000 {
        assert_eq!(
            client.option(option::LIST, b""),
            Step::More,
            "what a client with many exports asks"
        );
    }
    client.session.take_output();
    let head = |length: u32| {
        [&IHAVEOPT.to_be_bytes()[..], &option::LIST.to_be_bytes(), &length.to_be_bytes()].concat()
    };
    assert_eq!(client.say(&head(OPTION_BYTES_MAX as u32)), Step::Close(Close::ManyOptions));
}

/// A disk of each number.
struct Numbered(usize);

impl Exports for Numbered {
    fn names(&self) -> Vec<String> {
        (0..self.0).map(|number| format!("disk{number}")).collect()
    }
    fn listed(&self, from: usize) -> Option<(usize, String)> {
        (from < self.0).then(|| (from, format!("disk{from}")))
    }
    fn export(&self, _name: &str) -> Result<Export, Refusal> {
        Ok(Export { description: "d".repeat(4096), ..Export::new(1 << 20) })
    }
}

#[test]
fn a_long_list_is_put_out_in_parts() {
    let (mut session, disks) = (Session::new(SessionConfig::default()), Numbered(3000));
    session.take_output();
    assert_eq!(session.step(&[0, 0, 0, 3], &disks), (4, Step::Continue));
    let list =
        [&IHAVEOPT.to_be_bytes()[..], &option::LIST.to_be_bytes(), &0_u32.to_be_bytes()].concat();
    let (mut input, mut output) = (&list[..], Vec::new());
    loop {
        let (used, step) = session.step(input, &disks);
        input = &input[used..];
        let part = session.take_output();
        assert!(part.len() < 2 * LISTED, "{} bytes at a time", part.len());
        output.extend(part);
        if step == Step::More {
            break;
        }
    }
    let mut kinds = Vec::new();
    let mut fields = Fields(&output);
    while let Some(_magic) = fields.u64() {
        let (_option, kind, length) =
            (fields.u32(), fields.u32().expect("a kind"), fields.u32().expect("a length"));
        fields.bytes(length as usize).expect("a payload");
        kinds.push(kind);
    }
    assert_eq!(kinds.len(), 3001);
    assert_eq!(kinds.pop(), Some(answer::ACK));
    assert!(kinds.iter().all(|kind| *kind == answer::SERVER));
}

#[test]
fn a_write_is_followed_by_its_payload() {
    let mut client = Client::new(Tls::Off);
    client.go("fast");
    let bytes = [
        request(command::WRITE, flag::FUA, 4096, 3),
        b"abc".to_vec(),
        request(command::FLUSH, 0, 0, 0),
    ]
    .concat();
    let Step::Request(write) = client.say(&bytes) else { panic!("a request") };
    assert_eq!(
        (write.command, write.offset, write.length, write.fua),
        (Command::Write, 4096, 3, true)
    );
    assert_eq!(&client.input[..3], b"abc");
    client.input.drain(..3);
    client.session.on_payload(2);
    client.session.on_payload(1);
    assert!(matches!(client.say(b""), Step::Request(Request { command: Command::Flush, .. })));
}

#[test]
fn a_refused_write_is_read_past() {
    let mut client = Client::new(Tls::Off);
    client.go("fast");
    client.session.take_output();
    assert_eq!(client.say(&request(command::WRITE, 0, 1 << 30, 5)), Step::More);
    assert!(!client.session.has_output(), "the answer comes when its payload is gone");
    assert_eq!(client.say(b"abc"), Step::More);
    let rest = [&b"de"[..], &request(command::READ, 0, 0, 512)].concat();
    client.refused(&rest, Command::Write, Reason::OutOfRange);
    assert!(
        matches!(client.say(b""), Step::Request(Request { command: Command::Read, .. })),
        "it goes on"
    );
    assert_eq!(client.session.take_output()[4..8], [0, 0, 0, 28], "no space left");
    assert_eq!(
        client.say(&request(command::WRITE, 1 << 14, 0, u32::MAX)),
        Step::Close(Close::Payload)
    );
}

#[test]
fn requests_of_no_bytes_are_done() {
    let mut client = Client::new(Tls::Off);
    client.go("fast");
    for command in [command::READ, command::WRITE, command::TRIM, command::WRITE_ZEROES] {
        assert_eq!(client.say(&request(command, 0, 0, 0)), Step::More);
        let reply = client.session.take_output();
        assert_eq!((reply.len(), &reply[4..8]), (16, &[0; 4][..]), "{command}");
    }
}

#[test]
fn the_end_is_the_end() {
    let mut client = Client::new(Tls::Off);
    client.go("fast");
    let bytes = [request(command::DISC, 0, 0, 0), request(command::READ, 0, 0, 512)].concat();
    assert_eq!(client.say(&bytes), Step::Close(Close::Left));
    assert_eq!(client.say(b""), Step::Close(Close::Left), "what follows is not looked at");
    let mut client = Client::new(Tls::Off);
    client.go("fast");
    assert_eq!(client.say(&[7; 28]), Step::Close(Close::BadMagic));
}

/// A client that agreed on extended headers and sends a compact one waits for an answer to it; the
/// server does not wait for more bytes of it.
#[test]
fn a_compact_request_is_no_extended_one() {
    let mut client = Client::new(Tls::Off);
    client.option(option::EXTENDED_HEADERS, b"");
    client.go("fast");
    assert_eq!(client.say(&REQUEST.to_be_bytes()[..3]), Step::More);
    assert_eq!(client.say(&REQUEST.to_be_bytes()[3..]), Step::Close(Close::BadMagic));
}

/// A client that asks for the default export is told under which name it is listed.
#[test]
fn the_default_export_has_a_name() {
    let mut client = Client::new(Tls::Off);
    client.option(option::INFO, &asked("", &[1]));
    let name =
        client.answers().into_iter().find(|(.., item)| item[..2] == [0, 1]).expect("a name").2;
    assert_eq!(name[2..], *b"fast");
    client.option(option::STRUCTURED_REPLY, b"");
    client.option(option::SET_META_CONTEXT, &queries("", &["base:allocation"]));
    assert_eq!(client.option(option::GO, &asked("", &[])), Step::Opened(String::new()));
    let step = client.say(&request(command::BLOCK_STATUS, 0, 0, 512));
    assert!(
        matches!(step, Step::Request(_)),
        "the context holds for the name that was used: {step:?}"
    );
}

/// Runs a session over bytes that come in pieces, and returns its output and steps.
fn transcript(bytes: &[u8], pieces: &[usize]) -> (Vec<u8>, Vec<Step>) {
    let mut session = Session::new(SessionConfig { tls: Tls::Offered, drain: 1 << 20 });
    let (mut output, mut steps, mut input) = (Vec::new(), Vec::new(), Vec::new());
    let (mut rest, mut pieces) = (bytes, pieces.iter().cycle());
    // Bytes of a payload that are left to be taken.
    let mut payload = 0;
    loop {
        let taken = input.len().min(payload);
        if taken > 0 {
            session.on_payload(taken as u64);
            input.drain(..taken);
            payload -= taken;
        }
        let step = if payload > 0 {
            Step::More
        } else {
            let (used, step) = session.step(&input, &Disks);
            assert!(used <= input.len());
            input.drain(..used);
            step
        };
        output.extend(session.take_output());
        match step {
            Step::More if rest.is_empty() => return (output, steps),
            Step::More => {
                let piece = (*pieces.next().expect("sizes")).clamp(1, rest.len());
                input.extend_from_slice(&rest[..piece]);
                rest = &rest[piece..];
            }
            Step::Continue => {}
            Step::StartTls => session.on_tls(),
            Step::Close(_) => {
                steps.push(step);
                return (output, steps);
            }
            step => {
                if let Step::Request(Request { command: Command::Write, length, .. }) = step {
                    payload = length as usize;
                }
                steps.push(step);
            }
        }
    }
}

fn messages() -> impl Strategy<Value = Vec<u8>> {
    let option =
        (0_u32..13, proptest::collection::vec(any::<u8>(), 0..20)).prop_map(|(kind, payload)| {
            let payload = match kind {
                option::GO | option::INFO if payload.len() > 2 => asked("fast", &[3, 1]),
                option::SET_META_CONTEXT if payload.len() > 2 => {
                    queries("fast", &["base:allocation"])
                }
                option::STARTTLS | option::STRUCTURED_REPLY => Vec::new(),
                _ => payload,
            };
            let mut bytes = Vec::new();
            bytes.u64(IHAVEOPT);
            bytes.u32(kind);
            bytes.u32(payload.len() as u32);
            bytes.extend(payload);
            bytes
        });
    let sent = (0_u16..9, any::<u16>(), 0_u64..2 << 30, 0_u32..2000).prop_map(
        |(command, flags, offset, length)| {
            let mut bytes = request(command, flags & 0x9003, offset, length);
            if command == command::WRITE {
                bytes.resize(bytes.len() + length as usize, 0x5a);
            }
            bytes
        },
    );
    let go = Just(
        [
            &IHAVEOPT.to_be_bytes()[..],
            &7_u32.to_be_bytes(),
            &12_u32.to_be_bytes(),
            &asked("fast", &[3]),
        ]
        .concat(),
    );
    let many = |one: BoxedStrategy<Vec<u8>>| proptest::collection::vec(one, 0..6);
    (many(option.boxed()), go, many(sent.boxed())).prop_map(|(options, go, sent)| {
        [vec![0, 0, 0, 3], options.concat(), go, sent.concat()].concat()
    })
}

proptest! {
    /// How the bytes of a connection are cut changes nothing.
    #[test]
    fn pieces_change_nothing(bytes in messages(), pieces in proptest::collection::vec(1_usize..40, 1..8)) {
        // STARTTLS is only valid as the last bytes so far, so that it depends on the pieces.
        prop_assume!(!bytes.windows(12).any(|at| at == [&IHAVEOPT.to_be_bytes()[..], &[0, 0, 0, 5]].concat()));
        prop_assert_eq!(transcript(&bytes, &[usize::MAX]), transcript(&bytes, &pieces));
    }

    /// Arbitrary bytes end in a step, never in a panic.
    #[test]
    fn noise_is_survived(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        transcript(&[&[0, 0, 0, 3][..], &bytes].concat(), &[7]);
    }
}
