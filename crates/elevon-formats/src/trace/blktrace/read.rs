//! Reads version 7 records in either byte order.

use std::io::{self, Read};

use super::{MAGIC, RECORD_SIZE, category};

/// One record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Number on its CPU; 0 in records that only inform.
    pub sequence: u32,
    /// Nanoseconds of the machine's monotonic clock.
    pub time: u64,
    /// First sector.
    pub sector: u64,
    /// Bytes.
    pub bytes: u32,
    /// Low half [`super::action`], high half [`super::category`]; the mark of a cgroup id is taken off.
    pub action: u32,
    /// Task.
    pub pid: u32,
    /// Major and minor number.
    pub device: (u32, u32),
    /// CPU.
    pub cpu: u32,
    /// 0 or a negative errno.
    pub error: i16,
    /// cgroup id, where the trace carries one.
    pub cgroup: Option<u64>,
    /// What follows.
    pub payload: Vec<u8>,
}

impl Record {
    /// blktrace's letter; `None` for records that only inform.
    pub fn letter(&self) -> Option<char> {
        if self.action >> 16 & category::NOTIFY != 0 {
            return None;
        }
        "QMFGSRDCPUTIXBA".chars().nth((self.action as usize & 0xffff).checked_sub(1)?)
    }

    /// The number in the payload of an X (first sector of the remainder) or a U (requests).
    pub fn number(&self) -> Option<u64> {
        self.payload.get(..8)?.try_into().ok().map(u64::from_be_bytes)
    }
}

/// Why records could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// Of the input.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// No record begins here, or one of another version.
    #[error("record at byte {offset} begins with {found:#010x}, not with blktrace's version 7 ({MAGIC:#010x})")]
    Magic {
        /// Position in the input.
        offset: u64,
        /// What is there.
        found: u32,
    },
    /// The input ends within a record.
    #[error("record at byte {offset} is cut short")]
    Cut {
        /// Position of the record's start.
        offset: u64,
    },
}

/// Mark in an action that the payload begins with a cgroup id.
const HAS_CGROUP: u32 = 1 << 8;

/// Reads records one by one; ends at the first error.
pub struct Reader<R> {
    input: R,
    offset: u64,
    over: bool,
}

impl<R: Read> Reader<R> {
    /// Reads from the start of a per-CPU file.
    pub const fn new(input: R) -> Self {
        Self { input, offset: 0, over: false }
    }

    fn record(&mut self) -> Result<Option<Record>, ReadError> {
        let mut bytes = [0; RECORD_SIZE];
        let offset = self.offset;
        match self.fill(&mut bytes)? {
            0 => return Ok(None),
            RECORD_SIZE => {}
            _ => return Err(ReadError::Cut { offset }),
        }
        let found = u32::from_le_bytes(bytes[..4].try_into().unwrap_or_default());
        let big_endian = match found {
            MAGIC => false,
            _ if found.swap_bytes() == MAGIC => true,
            _ => return Err(ReadError::Magic { offset, found }),
        };
        let u16_at = |at: usize| {
            let raw = [bytes[at], bytes[at + 1]];
            if big_endian { u16::from_be_bytes(raw) } else { u16::from_le_bytes(raw) }
        };
        let u32_at = |at: usize| {
            let (first, second) = (u32::from(u16_at(at)), u32::from(u16_at(at + 2)));
            if big_endian { first << 16 | second } else { second << 16 | first }
        };
        let u64_at = |at: usize| {
            let (first, second) = (u64::from(u32_at(at)), u64::from(u32_at(at + 4)));
            if big_endian { first << 32 | second } else { second << 32 | first }
        };
        let mut payload = vec![0; usize::from(u16_at(46))];
        if self.fill(&mut payload)? < payload.len() {
            return Err(ReadError::Cut { offset });
        }
        let (action, mut cgroup) = (u32_at(28), None);
        if action & HAS_CGROUP != 0 && payload.len() >= 8 {
            let id: [u8; 8] = payload.drain(..8).as_slice().try_into().unwrap_or_default();
            cgroup = Some(if big_endian { u64::from_be_bytes(id) } else { u64::from_le_bytes(id) });
        }
        let device = u32_at(36);
        Ok(Some(Record {
            sequence: u32_at(4),
            time: u64_at(8),
            sector: u64_at(16),
            bytes: u32_at(24),
            action: action & !HAS_CGROUP,
            pid: u32_at(32),
            device: (device >> 20, device & 0xf_ffff),
            cpu: u32_at(40),
            error: u16_at(44) as i16,
            cgroup,
            payload,
        }))
    }

    /// Fills the buffer as far as the input reaches.
    fn fill(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.input.read(&mut buffer[filled..]) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.offset += filled as u64;
        Ok(filled)
    }
}

impl<R: Read> Iterator for Reader<R> {
    type Item = Result<Record, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.over {
            return None;
        }
        let record = self.record().transpose();
        self.over = !matches!(record, Some(Ok(_)));
        record
    }
}
