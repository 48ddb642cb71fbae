//! A small client of NBD: one request at a time, or several in flight.

use std::io::{Read, Result, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Commands of the protocol.
pub(crate) const READ: u16 = 0;
pub(crate) const WRITE: u16 = 1;
pub(crate) const FLUSH: u16 = 3;
/// The flag of a command that is to be durable before its answer.
pub(crate) const FUA: u16 = 1;

/// Connects to a server. A test whose answer never comes fails by its name, and does not hang.
fn connect(socket: &Path) -> Result<UnixStream> {
    const ANSWER_TIMEOUT: Option<Duration> = Some(Duration::from_secs(300));
    let stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(ANSWER_TIMEOUT)?;
    stream.set_write_timeout(ANSWER_TIMEOUT)?;
    Ok(stream)
}

/// A connection with an export open.
pub(crate) struct Client {
    stream: UnixStream,
    cookie: u64,
}

impl Client {
    /// Opens an export at a socket by GO, and asks for its block sizes.
    pub(crate) fn open_with_blocks(socket: &Path, export: &str) -> Result<Self> {
        let mut stream = connect(socket)?;
        stream.read_exact(&mut [0; 18])?;
        // Fixed newstyle without zeroes, then GO with one item, the block sizes.
        stream.write_all(&[0, 0, 0, 3])?;
        stream.write_all(b"IHAVEOPT\0\0\0\x07")?;
        stream.write_all(&(export.len() as u32 + 8).to_be_bytes())?;
        stream.write_all(&(export.len() as u32).to_be_bytes())?;
        stream.write_all(export.as_bytes())?;
        stream.write_all(&[0, 1, 0, 3])?;
        loop {
            let mut answer = [0; 20];
            stream.read_exact(&mut answer)?;
            let number =
                |at: usize| u32::from_be_bytes(answer[at..at + 4].try_into().expect("4 bytes"));
            let (kind, length) = (number(12), number(16));
            stream.read_exact(&mut vec![0; length as usize])?;
            match kind {
                1 => return Ok(Self { stream, cookie: 0 }),
                3 => {}
                kind => panic!("the answer {kind:#x}"),
            }
        }
    }

    /// Opens an export at a socket. The client asks for nothing, block sizes neither.
    pub(crate) fn open(socket: &Path, export: &str) -> Result<Self> {
        let mut stream = connect(socket)?;
        let mut greeting = [0; 18];
        stream.read_exact(&mut greeting)?;
        // Fixed newstyle without zeroes, then EXPORT_NAME.
        stream.write_all(&[0, 0, 0, 3])?;
        stream.write_all(b"IHAVEOPT\0\0\0\x01")?;
        stream.write_all(&(export.len() as u32).to_be_bytes())?;
        stream.write_all(export.as_bytes())?;
        let mut opened = [0; 10];
        stream.read_exact(&mut opened)?;
        Ok(Self { stream, cookie: 0 })
    }

    /// Opens an export at a socket as a client that asks what is allocated: its answers are chunks
    /// ([`Self::chunk`]).
    pub(crate) fn open_asking(socket: &Path, export: &str) -> Result<Self> {
        let mut stream = connect(socket)?;
        stream.read_exact(&mut [0; 18])?;
        let name = [&(export.len() as u32).to_be_bytes()[..], export.as_bytes()].concat();
        let context = [&name[..], b"\0\0\0\x01\0\0\0\x0fbase:allocation"].concat();
        // STRUCTURED_REPLY, SET_META_CONTEXT, EXPORT_NAME.
        stream.write_all(&[0, 0, 0, 3])?;
        for (option, data) in [(8_u32, &b""[..]), (10, &context), (1, export.as_bytes())] {
            let head =
                [&b"IHAVEOPT"[..], &option.to_be_bytes(), &(data.len() as u32).to_be_bytes()]
                    .concat();
            stream.write_all(&[&head, data].concat())?;
        }
        let mut acknowledged = 0;
        while acknowledged < 2 {
            let mut answer = [0; 20];
            stream.read_exact(&mut answer)?;
            let number =
                |at: usize| u32::from_be_bytes(answer[at..at + 4].try_into().expect("4 bytes"));
            stream.read_exact(&mut vec![0; number(16) as usize])?;
            acknowledged += u32::from(number(12) == 1);
        }
        stream.read_exact(&mut [0; 10])?;
        Ok(Self { stream, cookie: 0 })
    }

    /// Takes a chunk of an answer. Returns the cookie if it was the last one.
    pub(crate) fn chunk(&mut self) -> Result<Option<u64>> {
        let mut head = [0; 20];
        self.stream.read_exact(&mut head)?;
        let length = u32::from_be_bytes(head[16..].try_into().expect("4 bytes"));
        self.stream.read_exact(&mut vec![0; length as usize])?;
        assert_eq!(head[6] & 0x80, 0, "no error");
        let cookie = u64::from_be_bytes(head[8..16].try_into().expect("8 bytes"));
        Ok((head[5] & 1 != 0).then_some(cookie))
    }

    /// Sends a request, and returns its cookie.
    pub(crate) fn send(
        &mut self,
        flags: u16,
        command: u16,
        offset: u64,
        length: u32,
        data: &[u8],
    ) -> Result<u64> {
        let mut bytes = self.request(flags, command, offset, length);
        bytes.extend(data);
        self.stream.write_all(&bytes)?;
        Ok(self.cookie)
    }

    /// Sends READs of these offsets and lengths, which arrive together.
    pub(crate) fn send_reads(&mut self, ranges: &[(u64, u32)]) -> Result<()> {
        self.send_many(READ, ranges)
    }

    /// Sends requests without data in one message.
    pub(crate) fn send_many(&mut self, command: u16, ranges: &[(u64, u32)]) -> Result<()> {
        let all =
            ranges.iter().flat_map(|&(offset, length)| self.request(0, command, offset, length));
        let bytes: Vec<u8> = all.collect();
        self.stream.write_all(&bytes)
    }

    fn request(&mut self, flags: u16, command: u16, offset: u64, length: u32) -> Vec<u8> {
        self.cookie += 1;
        let mut bytes = 0x2560_9513_u32.to_be_bytes().to_vec();
        bytes.extend(flags.to_be_bytes());
        bytes.extend(command.to_be_bytes());
        bytes.extend(self.cookie.to_be_bytes());
        bytes.extend(offset.to_be_bytes());
        bytes.extend(length.to_be_bytes());
        bytes
    }

    /// Takes an answer without data: its cookie, and an errno or 0.
    pub(crate) fn answer(&mut self) -> Result<(u64, u32)> {
        let mut answer = [0; 16];
        self.stream.read_exact(&mut answer)?;
        let number =
            |at: usize| u32::from_be_bytes(answer[at..at + 4].try_into().expect("4 bytes"));
        assert_eq!(number(0), 0x6744_6698, "a simple reply");
        Ok((u64::from_be_bytes(answer[8..].try_into().expect("8 bytes")), number(4)))
    }

    /// Writes, and returns the errno.
    pub(crate) fn write(&mut self, flags: u16, offset: u64, data: &[u8]) -> Result<u32> {
        self.send(flags, WRITE, offset, data.len() as u32, data)?;
        Ok(self.answer()?.1)
    }

    /// Flushes, and returns the errno.
    pub(crate) fn flush(&mut self) -> Result<u32> {
        self.send(0, FLUSH, 0, 0, &[])?;
        Ok(self.answer()?.1)
    }

    /// Reads, and returns the errno or the bytes.
    pub(crate) fn read(
        &mut self,
        offset: u64,
        length: u32,
    ) -> Result<std::result::Result<Vec<u8>, u32>> {
        self.send(0, READ, offset, length, &[])?;
        let (_, errno) = self.answer()?;
        if errno != 0 {
            return Ok(Err(errno));
        }
        Ok(Ok(self.data(length)?))
    }

    /// Takes the data behind an answer.
    pub(crate) fn data(&mut self, length: u32) -> Result<Vec<u8>> {
        let mut data = vec![0; length as usize];
        self.stream.read_exact(&mut data)?;
        Ok(data)
    }
}
