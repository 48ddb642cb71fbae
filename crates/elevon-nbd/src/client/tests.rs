use proptest::prelude::*;

use super::*;
use crate::wire::{CHUNK, SIMPLE_REPLY, chunk};
use crate::{Export, Exports, Refusal, Session, SessionConfig, Step, TransmissionFlags};

struct Disks;

impl Exports for Disks {
    fn names(&self) -> Vec<String> {
        Vec::new()
    }
    fn export(&self, name: &str) -> Result<Export, Refusal> {
        match name {
            "disk" => {
                Ok(Export { block: 512, preferred: 8192, payload: 1 << 20, ..Export::new(1 << 20) })
            }
            "old" => Ok(Export {
                flags: TransmissionFlags {
                    read_only: true,
                    rotational: true,
                    trim: false,
                    multi_conn: false,
                    fast_zero: false,
                },
                ..Export::new(4096)
            }),
            _ => Err(Refusal::Unknown),
        }
    }
}

/// A server in memory: it answers every request, those to read with the low byte of their offset.
struct Server {
    session: Session,
    input: Vec<u8>,
    output: Vec<u8>,
    /// Bytes of a payload that are left to be taken.
    payload: usize,
}

impl Server {
    fn new() -> Self {
        let mut session = Session::new(SessionConfig::default());
        let output = session.take_output();
        Self { session, input: Vec::new(), output, payload: 0 }
    }

    fn take(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
        loop {
            let taken = self.input.len().min(self.payload);
            if taken > 0 {
                self.session.on_payload(taken as u64);
                self.input.drain(..taken);
                self.payload -= taken;
            }
            if self.payload > 0 {
                return;
            }
            let (used, step) = self.session.step(&self.input, &Disks);
            self.input.drain(..used);
            self.output.extend(self.session.take_output());
            match step {
                Step::More | Step::Close(_) => return,
                Step::Request(request) if request.command == Command::Read => {
                    let format = self.session.reply_format();
                    format.data_follows(&mut self.output, &request);
                    let end = self.output.len() + request.length as usize;
                    self.output.resize(end, (request.offset >> 9) as u8);
                }
                Step::Request(request)
                    if matches!(request.command, Command::BlockStatus { .. }) =>
                {
                    let hole = Extent { length: 4096, hole: true, zero: true };
                    let data = Extent { length: 1 << 30, hole: false, zero: false };
                    self.session.reply_format().extents(&mut self.output, &request, &[hole, data]);
                }
                Step::Request(request) => {
                    self.payload =
                        if request.command == Command::Write { request.length as usize } else { 0 };
                    self.session.reply_format().done(&mut self.output, &request);
                }
                _ => {}
            }
        }
    }
}

/// Exchanges bytes until neither side has any, in pieces of this size, and returns the steps.
fn exchange(
    client: &mut Client,
    server: &mut Server,
    piece: usize,
) -> Result<Vec<ClientStep>, ClientError> {
    let (mut steps, mut input) = (Vec::new(), Vec::new());
    loop {
        let (used, step) = client.step(&input)?;
        input.drain(..used);
        server.take(&client.take_output());
        match step {
            ClientStep::More if server.output.is_empty() => return Ok(steps),
            ClientStep::More => input.extend(server.output.drain(..piece.min(server.output.len()))),
            ClientStep::Continue => {}
            ClientStep::Data { length, .. } => {
                input.append(&mut server.output);
                input.drain(..length as usize);
                client.on_payload(length);
                steps.push(step);
            }
            step => steps.push(step),
        }
    }
}

#[test]
fn an_export_of_our_own_server_is_opened() {
    for piece in [1, 7, 1000] {
        let (mut client, mut server) = (Client::new("disk", false), Server::new());
        let steps = exchange(&mut client, &mut server, piece).expect("it opens");
        let [ClientStep::Opened(remote)] = steps[..] else { panic!("{steps:?}") };
        assert_eq!(
            (remote.size, remote.block, remote.preferred, remote.payload),
            (1 << 20, 512, 8192, 1 << 20)
        );
        assert!(
            remote.flush && remote.fua && remote.trim && remote.write_zeroes && !remote.read_only
        );
        assert!(remote.multi_conn && remote.allocation);
    }
    let (mut client, mut server) = (Client::new("old", false), Server::new());
    let steps = exchange(&mut client, &mut server, 100).expect("it opens");
    let [ClientStep::Opened(remote)] = steps[..] else { panic!("{steps:?}") };
    assert!(
        remote.read_only
            && remote.rotational
            && !remote.multi_conn
            && !remote.trim
            && !remote.write_zeroes
    );
    let error = exchange(&mut Client::new("none", false), &mut Server::new(), 100)
        .expect_err("no such export");
    assert_eq!(error.to_string(), "the server refuses: no export of this name");
}

#[test]
fn every_request_has_its_answer() {
    let (mut client, mut server) = (Client::new("disk", false), Server::new());
    exchange(&mut client, &mut server, 100).expect("it opens");
    let zeroes = Command::WriteZeroes { no_hole: true, fast: false };
    for (cookie, command, length, data) in [
        (1, Command::Read, 1024, 0),
        (2, Command::Write, 512, 512),
        (3, Command::Flush, 0, 0),
        (4, Command::Trim, 512, 0),
        (5, zeroes, 4096, 0),
        (6, Command::Read, 512, 0),
        (7, Command::Read, 100, 0),
        (8, Command::BlockStatus { one: false }, 8192, 0),
    ] {
        server.take(&client.request(cookie, command, 0, length, data > 0));
        server.take(&vec![1; data]);
    }
    let steps = exchange(&mut client, &mut server, 1000).expect("answers");
    let done = |cookie| ClientStep::Reply { cookie, error: None, good: 0 };
    let extent = |is_hole| Extent { length: 4096, hole: is_hole, zero: is_hole };
    assert_eq!(
        steps,
        [
            ClientStep::Data { cookie: 1, at: 0, length: 1024 },
            done(1),
            done(2),
            done(3),
            done(4),
            done(5),
            ClientStep::Data { cookie: 6, at: 0, length: 512 },
            done(6),
            ClientStep::Reply { cookie: 7, error: Some(NbdError::Invalid), good: 0 },
            ClientStep::Extents { cookie: 8, extents: vec![extent(true), extent(false)] },
            done(8),
        ]
    );
    client.request(9, Command::Read, 0, 512, false);
    assert_eq!((client.in_flight(), client.take_in_flight()), (1, vec![9]));
}

fn greeting() -> Vec<u8> {
    [&NBDMAGIC.to_be_bytes()[..], &IHAVEOPT.to_be_bytes(), &[0, 3]].concat()
}

/// Returns an answer to an option.
fn told_of(of: u32, kind: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.u64(OPTION_REPLY);
    bytes.u32(of);
    bytes.u32(kind);
    bytes.u32(payload.len() as u32);
    bytes.extend_from_slice(payload);
    bytes
}

/// Returns what a server says to open an export of 1 MiB, with what it chooses of what is asked.
fn opening(is_structured: bool, context: Option<u32>) -> Vec<u8> {
    let mut bytes = greeting();
    bytes.extend(told_of(
        option::STRUCTURED_REPLY,
        if is_structured { answer::ACK } else { answer::UNSUPPORTED },
        b"",
    ));
    if is_structured {
        if let Some(number) = context {
            let chosen = [&number.to_be_bytes()[..], BASE_ALLOCATION.as_bytes()].concat();
            bytes.extend(told_of(option::SET_META_CONTEXT, answer::META_CONTEXT, &chosen));
        }
        bytes.extend(told_of(option::SET_META_CONTEXT, answer::ACK, b""));
    }
    bytes.extend(told_of(
        option::GO,
        answer::INFO,
        &[&[0, 0][..], &(1_u64 << 20).to_be_bytes(), &[0, 1]].concat(),
    ));
    bytes.extend(told_of(option::GO, answer::ACK, b""));
    bytes
}

/// Gives bytes to a client until more are needed, or an error; data of READs is read past.
fn steps(client: &mut Client, mut input: &[u8]) -> Result<Vec<ClientStep>, ClientError> {
    let mut steps = Vec::new();
    loop {
        let (used, step) = client.step(input)?;
        input = &input[used..];
        match step {
            ClientStep::More => return Ok(steps),
            ClientStep::Continue => {}
            ClientStep::Data { length, .. } => {
                client.on_payload(length);
                input = &input[length as usize..];
                steps.push(step);
            }
            step => steps.push(step),
        }
    }
}

fn opened(is_structured: bool, context: Option<u32>) -> Client {
    let mut client = Client::new("disk", false);
    let said = steps(&mut client, &opening(is_structured, context)).expect("it opens");
    let [ClientStep::Opened(remote)] = said[..] else { panic!("{said:?}") };
    assert_eq!(remote.allocation, context.is_some());
    client
}

/// Returns a chunk of the answer to request 1.
fn chunk(flags: u16, kind: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.u32(CHUNK);
    bytes.u16(flags);
    bytes.u16(kind);
    bytes.u64(1);
    bytes.u32(payload.len() as u32);
    bytes.extend_from_slice(payload);
    bytes
}

fn reply(magic: u32, error: u32, cookie: u64) -> Vec<u8> {
    [&magic.to_be_bytes()[..], &error.to_be_bytes(), &cookie.to_be_bytes()].concat()
}

fn simple(error: u32, cookie: u64) -> Vec<u8> {
    reply(SIMPLE_REPLY, error, cookie)
}

fn data(flags: u16, offset: u64, length: usize) -> Vec<u8> {
    chunk(flags, chunk::OFFSET_DATA, &[&offset.to_be_bytes()[..], &vec![7; length]].concat())
}

fn hole(flags: u16, offset: u64, length: u32) -> Vec<u8> {
    chunk(flags, chunk::OFFSET_HOLE, &[&offset.to_be_bytes()[..], &length.to_be_bytes()].concat())
}

/// Returns an error, at an offset if one is given.
fn failed(flags: u16, offset: Option<u64>) -> Vec<u8> {
    let kind = if offset.is_some() { chunk::ERROR_OFFSET } else { chunk::ERROR };
    let offset = offset.map(u64::to_be_bytes);
    let offset = offset.as_ref().map_or(&[][..], |bytes| &bytes[..]);
    chunk(flags, kind, &[&[0, 0, 0, 5, 0, 2, b'n', b'o'][..], offset].concat())
}

#[test]
fn chunks_of_a_read_come_in_any_order() {
    let read = |chunks: &[Vec<u8>]| {
        let mut client = opened(true, None);
        client.request(1, Command::Read, 4096, 4096, false);
        steps(&mut client, &chunks.concat())
    };
    let part = |at, length| ClientStep::Data { cookie: 1, at, length };
    let zeroes = ClientStep::Zeroes { cookie: 1, at: 512, length: 3072 };
    let done = ClientStep::Reply { cookie: 1, error: None, good: 0 };
    let io = |good| ClientStep::Reply { cookie: 1, error: Some(NbdError::Io), good };
    for (chunks, wanted) in [
        (
            vec![data(0, 7680, 512), hole(0, 4608, 3072), data(1, 4096, 512)],
            [part(3584, 512), zeroes.clone(), part(0, 512), done.clone()],
        ),
        (
            vec![
                data(0, 4096, 512),
                data(0, 7680, 512),
                hole(0, 4608, 3072),
                chunk(1, chunk::NONE, b""),
            ],
            [part(0, 512), part(3584, 512), zeroes.clone(), done],
        ),
        // What came before the byte that failed is good; with an error without a place nothing.
        (
            vec![
                data(0, 4096, 512),
                hole(0, 4608, 3072),
                failed(0, Some(7680)),
                data(1, 8000, 192),
            ],
            [part(0, 512), zeroes.clone(), part(3904, 192), io(3584)],
        ),
        (
            vec![
                data(0, 4096, 512),
                failed(0, Some(4500)),
                hole(0, 4608, 3072),
                data(1, 8000, 192),
            ],
            [part(0, 512), zeroes.clone(), part(3904, 192), io(404)],
        ),
        (
            vec![data(0, 4096, 512), data(0, 8000, 192), hole(0, 4608, 3072), failed(1, None)],
            [part(0, 512), part(3904, 192), zeroes, io(0)],
        ),
    ] {
        assert_eq!(read(&chunks).expect("the protocol"), wanted);
    }
    // A kind of error that is not known is an error.
    assert_eq!(read(&[chunk(1, 0x8077, &[0, 0, 0, 28, 0, 0])]).expect("the protocol").len(), 1);
}

#[test]
fn extents_are_those_of_the_context_that_was_chosen() {
    let status = |chunks: &[Vec<u8>]| {
        let mut client = opened(true, Some(9));
        client.request(1, Command::BlockStatus { one: false }, 4096, 8192, false);
        steps(&mut client, &chunks.concat())
    };
    let words =
        |words: &[u32]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<u8>>();
    let told = status(&[chunk(1, chunk::BLOCK_STATUS, &words(&[9, 4096, 3, 1 << 20, 4]))])
        .expect("the protocol");
    let hole = Extent { length: 4096, hole: true, zero: true };
    let data = Extent { length: 1 << 20, hole: false, zero: false };
    let done = ClientStep::Reply { cookie: 1, error: None, good: 0 };
    assert_eq!(told, [ClientStep::Extents { cookie: 1, extents: vec![hole, data] }, done]);
    opened(true, None);
    opened(false, None);
}

/// What contradicts the protocol, and has an end that is known, fails its request, and no other.
#[test]
fn a_bad_answer_fails_its_request_alone() {
    let words =
        |words: &[u32]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<u8>>();
    let read = Command::Read;
    let status = Command::BlockStatus { one: false };
    for (command, chunks, good) in [
        (read, vec![chunk(1, chunk::NONE, b"")], 0),
        (read, vec![data(0, 4096, 512), chunk(1, chunk::NONE, b"")], 512),
        (read, vec![data(0, 4096, 512), data(1, 4608, 512)], 1024),
        (read, vec![data(1, 4608, 3584)], 0),
        (read, vec![hole(1, 4096, 512)], 512),
        (read, vec![data(0, 4096, 512), data(1, 4600, 512)], 0),
        (read, vec![data(0, 4608, 512), hole(1, 4096, 1024)], 0),
        (read, vec![data(0, 4096, 4096), data(1, 4096, 4096)], 0),
        (read, vec![data(1, 8000, 200)], 0),
        (read, vec![data(1, 4000, 200)], 0),
        (read, vec![data(1, u64::MAX - 100, 200)], 0),
        (read, vec![hole(1, 4096, 0)], 0),
        (read, vec![hole(1, 4096, u32::MAX)], 0),
        (read, vec![data(0, 4096, 4096), data(1, 4096, 0)], 0),
        (
            read,
            vec![data(0, 4096, 4096), chunk(0, chunk::NONE, b""), chunk(1, chunk::NONE, b"")],
            0,
        ),
        (read, vec![chunk(1, chunk::NONE, b"text")], 0),
        (read, vec![chunk(1, chunk::OFFSET_HOLE, b"1")], 0),
        (read, vec![chunk(1, chunk::OFFSET_HOLE, &[0; 13])], 0),
        (read, vec![chunk(1, chunk::OFFSET_DATA, b"1234567")], 0),
        (read, vec![chunk(1, chunk::OFFSET_DATA, b"12345678")], 0),
        (read, vec![chunk(1, chunk::ERROR, b"")], 0),
        (read, vec![chunk(1, chunk::ERROR, &[0, 0, 0])], 0),
        (read, vec![chunk(1, chunk::ERROR, &[0, 0, 0, 5, 0, 9])], 0),
        (read, vec![chunk(1, chunk::ERROR_OFFSET, &[0, 0, 0, 5, 0, 0, 1])], 0),
        (read, vec![chunk(1, chunk::ERROR, &[0; 6])], 0),
        (read, vec![failed(1, Some(9000))], 0),
        (read, vec![data(0, 4096, 4096), chunk(1, 77, b"x")], 0),
        (read, vec![chunk(1, chunk::BLOCK_STATUS, &[0; 12])], 0),
        (read, vec![data(0, 4096, 512), simple(5, 1)], 0),
        (status, vec![chunk(1, chunk::BLOCK_STATUS, &words(&[8, 4096, 3]))], 0),
        (status, vec![chunk(1, chunk::BLOCK_STATUS, &words(&[9]))], 0),
        (status, vec![chunk(1, chunk::BLOCK_STATUS, &[])], 0),
        (status, vec![chunk(1, chunk::BLOCK_STATUS, &words(&[9, 0, 3]))], 0),
        (status, vec![chunk(1, chunk::BLOCK_STATUS, &words(&[9, 4096]))], 0),
        (status, vec![chunk(1, chunk::NONE, b"")], 0),
        (status, vec![simple(0, 1)], 0),
        (status, vec![data(1, 4096, 512)], 0),
        (status, vec![hole(1, 4096, 512)], 0),
        (Command::Flush, vec![data(1, 4096, 512)], 0),
        (Command::Write, vec![chunk(1, chunk::BLOCK_STATUS, &words(&[9, 4096, 3]))], 0),
    ] {
        let mut client = opened(true, Some(9));
        client.request(1, command, 4096, 4096, false);
        client.request(2, Command::Flush, 0, 0, false);
        // What is said of requests that have their answer is of no use.
        let again = [data(0, 4096, 512), chunk(1, chunk::NONE, b""), simple(5, 1), simple(0, 1)];
        let bytes = [chunks.concat(), again.concat(), simple(0, 2)].concat();
        let said = steps(&mut client, &bytes).unwrap_or_else(|error| panic!("{chunks:?}: {error}"));
        let replies: Vec<_> =
            said.iter().filter(|step| matches!(step, ClientStep::Reply { .. })).cloned().collect();
        let bad = ClientStep::Reply { cookie: 1, error: Some(NbdError::Io), good };
        assert_eq!(
            replies,
            [bad, ClientStep::Reply { cookie: 2, error: None, good: 0 }],
            "{chunks:?}"
        );
        assert_eq!(client.in_flight(), 0);
    }
}

/// Where the next answer begins is not known; whose answer was on its way stays in flight.
#[test]
fn answers_out_of_step_are_an_error() {
    let mut long = chunk(1, chunk::OFFSET_DATA, b"12345678");
    long[16..20].copy_from_slice(&u32::MAX.to_be_bytes());
    for (is_structured, bytes, words) in [
        (true, [data(0, 4096, 512), simple(0, 1)].concat(), "behind chunks"),
        (true, long, "a chunk of a wrong length"),
        (false, simple(0, 5), "a reply to no request"),
        (false, chunk(1, chunk::NONE, b""), "no reply"),
        (true, vec![7; 20], "no reply"),
    ] {
        let mut client = opened(is_structured, None);
        client.request(1, Command::Read, 4096, 4096, false);
        let error = steps(&mut client, &bytes).expect_err(words);
        assert!(error.to_string().contains(words), "{words}: {error}");
        assert_eq!(client.take_in_flight(), [1]);
    }
}

#[test]
fn nothing_is_said_in_the_clear_where_tls_is_wanted() {
    let mut client = Client::new("disk", true);
    let ack = told_of(option::STARTTLS, answer::ACK, b"");
    let (used, _) = client.step(&greeting()).expect("a greeting");
    assert_eq!(used, 18);
    let asked = client.take_output();
    assert_eq!((asked.len(), &asked[12..16]), (20, &option::STARTTLS.to_be_bytes()[..]));
    let error =
        client.clone().step(&[ack.clone(), vec![0]].concat()).expect_err("bytes before TLS");
    assert!(error.to_string().contains("plain bytes behind STARTTLS"), "{error}");
    for (kind, words) in
        [(answer::UNSUPPORTED, "it has no TLS"), (answer::INVALID, "TLS is refused")]
    {
        let error = client.clone().step(&told_of(option::STARTTLS, kind, b"")).expect_err(words);
        assert!(error.to_string().contains(words), "{error}");
    }
    assert_eq!(client.step(&ack), Ok((20, ClientStep::StartTls)));
    client.on_tls();
    let said = steps(&mut client, &opening(true, Some(1))[18..]).expect("it opens");
    assert!(matches!(said[..], [ClientStep::Opened(_)]), "{said:?}");
}

#[test]
fn a_server_that_breaks_the_protocol_is_left() {
    let greeting =
        [greeting(), told_of(option::STRUCTURED_REPLY, answer::UNSUPPORTED, b"")].concat();
    let told = |kind: u32, payload: &[u8]| told_of(option::GO, kind, payload);
    let sized =
        |size: u64| told(answer::INFO, &[&[0, 0][..], &size.to_be_bytes(), &[0, 1]].concat());
    let export = sized(1 << 20);
    let sizes = |block: u32, preferred: u32, payload: u32| {
        let bytes = [block, preferred, payload].map(u32::to_be_bytes).concat();
        told(answer::INFO, &[&[0, 3][..], &bytes].concat())
    };
    let ack = told(answer::ACK, b"");
    let open = [greeting.clone(), export.clone(), ack.clone()].concat();
    for (bytes, words) in [
        (b"HTTP/1.1 400 Bad Request\r\n".to_vec(), "not a server of NBD"),
        (
            [&NBDMAGIC.to_be_bytes()[..], &0x0000_4202_8186_1253_u64.to_be_bytes(), &[0, 3]]
                .concat(),
            "not a server",
        ),
        ([&greeting[..16], &[0, 0]].concat(), "not a server"),
        ([greeting.clone(), vec![0; 20]].concat(), "no answer to the option"),
        ([greeting.clone(), ack.clone()].concat(), "does not tell the export's size"),
        ([greeting.clone(), told(answer::INFO, &[0])].concat(), "wrong length"),
        ([greeting.clone(), told(answer::INFO, &[0, 0, 1])].concat(), "wrong length"),
        (
            [greeting.clone(), export.clone(), sizes(3, 4096, 1 << 20), ack.clone()].concat(),
            "block sizes",
        ),
        (
            [greeting.clone(), export.clone(), sizes(4096, 512, 1 << 20), ack.clone()].concat(),
            "block sizes",
        ),
        (
            [greeting.clone(), export.clone(), sizes(4096, 4096, 1000), ack.clone()].concat(),
            "block sizes",
        ),
        ([greeting.clone(), sized(1 << 63), ack.clone()].concat(), "2^63 bytes"),
        ([greeting.clone(), sized(u64::MAX), ack].concat(), "2^63 bytes"),
        ([greeting.clone(), told(answer::TLS_REQUIRED, b"")].concat(), "it requires TLS"),
        (
            [greeting, told(answer::POLICY, b"not on sundays\n")].concat(),
            "not for this client (not on sundays)",
        ),
        (
            [self::greeting(), told_of(option::STRUCTURED_REPLY, answer::TLS_REQUIRED, b"")]
                .concat(),
            "it requires TLS",
        ),
        (
            [self::greeting(), told_of(option::STRUCTURED_REPLY, answer::INFO, b"")].concat(),
            "no such answer",
        ),
        ([open.clone(), simple(0, 5)].concat(), "a reply to no request"),
        ([open.clone(), reply(CHUNK, 0, 5)].concat(), "what came is no reply"),
        ([open, reply(7, 0, 5)].concat(), "no reply"),
    ] {
        let mut client = Client::new("disk", false);
        let mut input = &bytes[..];
        let error = loop {
            match client.step(input) {
                Ok((_, ClientStep::More)) => panic!("{words}: it waits"),
                Ok((used, _)) => input = &input[used..],
                Err(error) => break error,
            }
        };
        assert!(error.to_string().contains(words), "{words}: {error}");
    }
}

proptest! {
    /// Arbitrary bytes of a server end in a step or an error, never in a panic.
    #[test]
    fn noise_is_survived(noise in proptest::collection::vec(any::<u8>(), 0..200), is_open in any::<bool>()) {
        let (mut client, mut server) = (Client::new("disk", false), Server::new());
        if is_open {
            exchange(&mut client, &mut server, 100).expect("it opens");
            client.request(0, Command::Read, 0, 512, false);
            client.request(1, Command::BlockStatus { one: false }, 0, 512, false);
        }
        let mut input = &noise[..];
        while let Ok((used, step)) = client.step(input) {
            prop_assert!(used <= input.len());
            input = &input[used..];
            match step {
                ClientStep::More => break,
                ClientStep::Data { length, .. } => client.on_payload(length),
                _ => {}
            }
        }
    }

    /// Chunks of any kinds, flags, places and lengths are survived, and a READ that succeeds had
    /// all of its bytes, once.
    #[test]
    fn chunks_add_up(chunks in proptest::collection::vec((0..2_u16, 0..4_u16, 0..8_u64, 1..8_u32), 0..8)) {
        let mut client = opened(true, Some(1));
        client.request(1, Command::Read, 0, 8, false);
        let mut came = 0;
        for (flags, kind, offset, length) in chunks {
            let bytes = match kind {
                0 => data(flags, offset, length as usize),
                1 => hole(flags, offset, length),
                2 => failed(flags, Some(offset)),
                _ => chunk(flags, chunk::NONE, b""),
            };
            let Ok(said) = steps(&mut client, &bytes) else { break };
            for step in said {
                match step {
                    ClientStep::Data { length, .. } | ClientStep::Zeroes { length, .. } => came += length,
                    ClientStep::Reply { error: None, .. } => prop_assert_eq!(came, 8),
                    ClientStep::Reply { good, .. } => prop_assert!(good <= came),
                    _ => {}
                }
            }
        }
    }
}
