//! Any bytes as what a client sends: the session takes a step, or ends; it never takes more than it
//! was given, says the same however the bytes are cut, and keeps requests inside the export and,
//! if the client was told block sizes, to whole blocks. Where TLS is required nothing is opened
//! without it, and no byte that came before the handshake is left to be taken for a protected one.
//! The same bytes as what a server sends to a client: each step uses no more than it was given, and
//! no request is answered twice, or after its end.

use elevon_nbd::{
    Client, ClientStep, Command, Export, Exports, Refusal, Session, SessionConfig, Step, Tls,
};

const SIZE: u64 = 1 << 20;
const BLOCK: u64 = 512;

struct Disk;

impl Exports for Disk {
    fn names(&self) -> Vec<String> {
        vec!["disk".to_owned()]
    }
    fn export(&self, name: &str) -> Result<Export, Refusal> {
        match name {
            "" | "disk" => Ok(Export { block: BLOCK as u32, ..Export::new(SIZE) }),
            _ => Err(Refusal::Unknown),
        }
    }
}

pub(crate) fn nbd(data: &[u8]) {
    for tls in [Tls::Off, Tls::Offered, Tls::Required] {
        let whole = output(data, data.len(), tls);
        // The bytes behind STARTTLS are judged by whether they came together with it.
        if tls == Tls::Off {
            assert_eq!(whole, output(data, 5, tls), "pieces change nothing");
        }
    }
    client(data, false);
    client(data, true);
}

/// Gives bytes to a client that has requests in flight, or, if not `is_open`, has just connected.
fn client(data: &[u8], is_open: bool) {
    let mut client = Client::new("disk", false);
    let mut in_flight: Vec<u64> = Vec::new();
    if is_open {
        let told = b"NBDMAGICIHAVEOPT\0\x03\
            \0\x03\xe8\x89\x04\x55\x65\xa9\0\0\0\x08\0\0\0\x01\0\0\0\0\
            \0\x03\xe8\x89\x04\x55\x65\xa9\0\0\0\x0a\0\0\0\x04\0\0\0\x13\0\0\0\x01base:allocation\
            \0\x03\xe8\x89\x04\x55\x65\xa9\0\0\0\x0a\0\0\0\x01\0\0\0\0\
            \0\x03\xe8\x89\x04\x55\x65\xa9\0\0\0\x07\0\0\0\x03\0\0\0\x0c\0\0\0\0\0\0\0\x10\0\0\0\x01\
            \0\x03\xe8\x89\x04\x55\x65\xa9\0\0\0\x07\0\0\0\x01\0\0\0\0";
        let mut rest = &told[..];
        while let Ok((used, step)) = client.step(rest) {
            rest = &rest[used..];
            if matches!(step, ClientStep::Opened(_)) {
                break;
            }
        }
        assert!(rest.is_empty(), "it opens");
        for cookie in 0..4 {
            let status = Command::BlockStatus { one: false };
            let command = [Command::Read, Command::Read, Command::Write, status][cookie as usize];
            client.request(cookie, command, 0, 8, false);
            in_flight.push(cookie);
        }
    }
    let mut input = data;
    while let Ok((used, step)) = client.step(input) {
        assert!(used <= input.len());
        input = &input[used..];
        match step {
            ClientStep::More => break,
            ClientStep::Continue | ClientStep::Opened(_) => {}
            ClientStep::Reply { cookie, .. } => {
                let at =
                    in_flight.iter().position(|it| *it == cookie).expect("a request in flight");
                in_flight.swap_remove(at);
            }
            ClientStep::Zeroes { cookie, .. } | ClientStep::Extents { cookie, .. } => {
                assert!(in_flight.contains(&cookie), "a request in flight");
            }
            ClientStep::Data { cookie, length, .. } => {
                assert!(in_flight.contains(&cookie), "a request in flight");
                if input.len() < length as usize {
                    break;
                }
                client.on_payload(length);
                input = &input[length as usize..];
            }
            ClientStep::StartTls => unreachable!("TLS was not asked for"),
        }
    }
}

/// Returns what the session answers to bytes that come in pieces of this size.
fn output(data: &[u8], piece: usize, tls: Tls) -> Vec<u8> {
    let mut session = Session::new(SessionConfig { tls, drain: SIZE });
    let (mut input, mut output, mut payload) = (Vec::new(), Vec::new(), 0);
    for piece in data.chunks(piece.max(1)) {
        input.extend_from_slice(piece);
        loop {
            let taken = input.len().min(payload);
            if taken > 0 {
                session.on_payload(taken as u64);
                input.drain(..taken);
                payload -= taken;
            }
            if payload > 0 {
                break;
            }
            let (used, step) = session.step(&input, &Disk);
            assert!(used <= input.len());
            input.drain(..used);
            output.extend(session.take_output());
            match step {
                Step::More => break,
                Step::Continue | Step::Refused { .. } => {}
                Step::Opened(_) => {
                    assert!(tls != Tls::Required || session.is_tls(), "opened without TLS");
                }
                Step::StartTls => {
                    assert!(tls != Tls::Off && input.is_empty() && !session.is_tls());
                    session.on_tls();
                }
                Step::Close(_) => return output,
                Step::Request(request) => {
                    assert!(request.offset + request.length <= SIZE, "{request:?}");
                    payload =
                        if request.command == Command::Write { request.length as usize } else { 0 };
                    // A client is held to the block sizes if it was told them by GO.
                    let told = [
                        &[0, 0, 0, 7, 0, 0, 0, 3, 0, 0, 0, 14, 0, 3][..],
                        &(BLOCK as u32).to_be_bytes(),
                    ]
                    .concat();
                    let was_told = output.windows(told.len()).any(|window| window == told);
                    let is_whole = request.offset.is_multiple_of(BLOCK)
                        && request.length.is_multiple_of(BLOCK);
                    assert!(is_whole || !was_told, "{request:?}");
                    if !matches!(request.command, Command::Read | Command::BlockStatus { .. }) {
                        session.reply_format().done(&mut output, &request);
                    }
                }
            }
        }
    }
    output
}
