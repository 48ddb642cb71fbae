use proptest::prelude::*;

use super::*;
use crate::{Export, Exports, Refusal, Session, SessionConfig, Step, TransmissionFlags};

struct Disks;

impl Exports for Disks {
    fn names(&self) -> Vec<String> {
        Vec::new()
    }
    fn export(&self, name: &str) -> Result<Export, Refusal> {
        match name {
            "disk" => Ok(Export { block: 512, preferred: 8192, payload: 1 << 20, ..Export::new(1 << 20) }),
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
}

impl Server {
    fn new() -> Self {
        let mut session = Session::new(SessionConfig::default());
        let output = session.take_output();
        Self { session, input: Vec::new(), output }
    }

    fn take(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
        loop {
            let payload = (self.session.payload_left() as usize).min(self.input.len());
            if payload > 0 {
                self.session.on_payload(payload as u64);
                self.input.drain(..payload);
            }
            if self.session.payload_left() > 0 {
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
                Step::Request(request) => self.session.reply_format().done(&mut self.output, &request),
                _ => {}
            }
        }
    }
}

/// Exchanges bytes until neither side has any, in pieces of this size, and returns the steps.
fn exchange(client: &mut Client, server: &mut Server, piece: usize) -> Result<Vec<ClientStep>, ClientError> {
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
        let (mut client, mut server) = (Client::new("disk"), Server::new());
        let steps = exchange(&mut client, &mut server, piece).expect("it opens");
        let [ClientStep::Opened(remote)] = steps[..] else { panic!("{steps:?}") };
        assert_eq!((remote.size, remote.block, remote.preferred, remote.payload), (1 << 20, 512, 8192, 1 << 20));
        assert!(remote.flush && remote.fua && remote.trim && remote.write_zeroes && !remote.read_only);
    }
    let (mut client, mut server) = (Client::new("old"), Server::new());
    let steps = exchange(&mut client, &mut server, 100).expect("it opens");
    let [ClientStep::Opened(remote)] = steps[..] else { panic!("{steps:?}") };
    assert!(remote.read_only && remote.rotational && !remote.trim && !remote.write_zeroes);
    let error = exchange(&mut Client::new("none"), &mut Server::new(), 100).expect_err("no such export");
    assert_eq!(error.to_string(), "the server refuses: no export of this name");
}

#[test]
fn every_request_has_its_answer() {
    let (mut client, mut server) = (Client::new("disk"), Server::new());
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
    ] {
        server.take(&client.request(cookie, command, 0, length, command != Command::Read));
        server.take(&vec![1; data]);
    }
    let steps = exchange(&mut client, &mut server, 1000).expect("answers");
    let done = |cookie| ClientStep::Reply { cookie, error: None };
    assert_eq!(
        steps,
        [
            ClientStep::Data { cookie: 1, length: 1024 },
            done(2),
            done(3),
            done(4),
            done(5),
            ClientStep::Data { cookie: 6, length: 512 },
            ClientStep::Reply { cookie: 7, error: Some(NbdError::Invalid) },
        ]
    );
    client.request(8, Command::Read, 0, 512, false);
    assert_eq!(client.take_in_flight(), [8]);
}

#[test]
fn a_server_that_breaks_the_protocol_is_left() {
    let greeting = [&NBDMAGIC.to_be_bytes()[..], &IHAVEOPT.to_be_bytes(), &[0, 3]].concat();
    let told = |kind: u32, payload: &[u8]| {
        let mut bytes = Vec::new();
        bytes.u64(OPTION_REPLY);
        bytes.u32(option::GO);
        bytes.u32(kind);
        bytes.u32(payload.len() as u32);
        bytes.extend_from_slice(payload);
        bytes
    };
    let export = told(answer::INFO, &[&[0, 0][..], &(1_u64 << 20).to_be_bytes(), &[0, 1]].concat());
    let sizes = |block: u32, preferred: u32, payload: u32| {
        let bytes = [block, preferred, payload].map(u32::to_be_bytes).concat();
        told(answer::INFO, &[&[0, 3][..], &bytes].concat())
    };
    let ack = told(answer::ACK, b"");
    let open = [greeting.clone(), export.clone(), ack.clone()].concat();
    let reply = |magic: u32, cookie: u64| [&magic.to_be_bytes()[..], &[0; 4], &cookie.to_be_bytes()].concat();
    for (bytes, words) in [
        (b"HTTP/1.1 400 Bad Request\r\n".to_vec(), "not a server of NBD"),
        ([&NBDMAGIC.to_be_bytes()[..], &0x0000_4202_8186_1253_u64.to_be_bytes(), &[0, 3]].concat(), "not a server"),
        ([&greeting[..16], &[0, 0]].concat(), "not a server"),
        ([greeting.clone(), vec![0; 20]].concat(), "no answer to GO"),
        ([greeting.clone(), ack.clone()].concat(), "does not tell the export's size"),
        ([greeting.clone(), told(answer::INFO, &[0])].concat(), "wrong length"),
        ([greeting.clone(), told(answer::INFO, &[0, 0, 1])].concat(), "wrong length"),
        ([greeting.clone(), export.clone(), sizes(3, 4096, 1 << 20), ack.clone()].concat(), "block sizes"),
        ([greeting.clone(), export.clone(), sizes(4096, 512, 1 << 20), ack.clone()].concat(), "block sizes"),
        ([greeting.clone(), export.clone(), sizes(4096, 4096, 1000), ack].concat(), "block sizes"),
        ([greeting.clone(), told(answer::TLS_REQUIRED, b"")].concat(), "it requires TLS"),
        ([greeting, told(answer::POLICY, b"not on sundays\n")].concat(), "not for this client (not on sundays)"),
        ([open.clone(), reply(SIMPLE_REPLY, 5)].concat(), "a reply to no request"),
        ([open, reply(7, 5)].concat(), "no simple reply"),
    ] {
        let mut client = Client::new("disk");
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
        let (mut client, mut server) = (Client::new("disk"), Server::new());
        if is_open {
            exchange(&mut client, &mut server, 100).expect("it opens");
            client.request(0, Command::Read, 0, 512, false);
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
}
