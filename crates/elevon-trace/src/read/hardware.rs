//! Commands of SCSI and UFS as the host controller's driver sees them: `scsi_dispatch_cmd_start`,
//! `scsi_dispatch_cmd_done` and `ufshcd_command`.
//!
//! A command becomes an issue when it is sent and a completion when it is answered, of a device of
//! its own (major number 0) that is named as the trace names it: `1d84000.ufshc`, or the SCSI
//! address `0:0:0:4`. It shows the tag, and the hardware queue if the driver has several. The block
//! layer's events of the same disk, if the trace has them, are of the disk itself.
//!
//! Addresses are in logical blocks, whose size no event tells: those of UFS are taken as 4096
//! bytes, the smallest that its standard allows, and those of SCSI as 512.

use super::cursor::{Cursor, Expected, whole_number};
use crate::event::{SECTOR_SIZE, TraceEvent, TraceKind};
use crate::op::TraceOp;

/// Sectors of a logical block of UFS.
const UFS_BLOCK: u64 = 8;
/// Note of a trace with commands of UFS.
pub(crate) const UFS_NOTE: &str =
    "addresses of UFS commands are taken as logical blocks of 4096 bytes";
/// Note of a trace with commands of SCSI.
pub(crate) const SCSI_NOTE: &str =
    "addresses of SCSI commands are taken as logical blocks of 512 bytes";

/// Name of the device of UFS commands in a trace that does not name it: it has one device then.
const UFS_NAMELESS: &[u8] = b"ufs";

/// Returns the name of the device of a UFS command, which the trace may leave out.
pub(crate) fn ufs_device(name: &[u8]) -> &[u8] {
    if name.is_empty() { UFS_NAMELESS } else { name }
}

/// A command, with the name of its device, which is empty if the trace does not name it.
pub(crate) struct Command<'a> {
    pub(crate) event: TraceEvent,
    pub(crate) device: &'a [u8],
}

/// The operation of a SCSI command by its operation code; passthrough for other commands.
const fn operation(opcode: u8) -> TraceOp {
    match opcode {
        0x08 | 0x28 | 0xa8 | 0x88 => TraceOp::Read,
        0x0a | 0x2a | 0xaa | 0x8a => TraceOp::Write,
        0x35 | 0x91 => TraceOp::Flush,
        0x42 => TraceOp::Discard,
        0x41 | 0x93 => TraceOp::WriteZeroes,
        _ => TraceOp::Passthrough,
    }
}

/// Sets what a command does and where. A flush has no place, and the ranges of a discard are in
/// data that no event shows.
fn place(event: &mut TraceEvent, opcode: u8, sector: Option<u64>, bytes: Option<u64>) {
    let op = operation(opcode);
    event.op = Some(op);
    match op {
        TraceOp::Flush => event.bytes = Some(0),
        TraceOp::Read | TraceOp::Write | TraceOp::WriteZeroes => {
            (event.sector, event.bytes) = (sector, bytes);
        }
        _ => {}
    }
}

/// The members of `ufshcd_command`, from a text or from a message.
#[derive(Clone, Copy, Default)]
pub(crate) struct Ufs<'a> {
    pub(crate) device: &'a [u8],
    /// The step: `send_req` and `complete_rsp`, or `send` and `complete` of older kernels.
    pub(crate) step: &'a [u8],
    pub(crate) tag: Option<u64>,
    pub(crate) bytes: Option<u64>,
    pub(crate) block: Option<u64>,
    pub(crate) opcode: u64,
    pub(crate) queue: Option<u64>,
}

impl<'a> Ufs<'a> {
    /// Returns the command; `None` for a step that is neither of a command's ends.
    pub(crate) fn command(self) -> Option<Command<'a>> {
        let kind = match self.step {
            b"send_req" | b"send" => TraceKind::Issue,
            b"complete_rsp" | b"complete" => TraceKind::Complete,
            _ => return None,
        };
        let mut event = TraceEvent::new(kind);
        event.tag = self.tag.and_then(|tag| u32::try_from(tag).ok());
        event.queue = self.queue.and_then(|queue| u16::try_from(queue).ok());
        // An address and a length that the driver does not know are all ones.
        let sector = self
            .block
            .filter(|&block| block != u64::MAX)
            .map(|block| block.wrapping_mul(UFS_BLOCK));
        let bytes = self.bytes.filter(|&bytes| bytes <= i32::MAX as u64);
        place(&mut event, self.opcode as u8, sector, bytes);
        Some(Command { event, device: self.device })
    }
}

/// Parses `send_req: 1d84000.ufshc: tag: 7, DB: 0x0, size: 4096, IS: 0, LBA: 6221511, opcode: 0x28
/// (READ_10), group_id: 0x0, hwq_id: 1`. Members that a kernel does not print are absent, and so is
/// the device in some traces.
pub(crate) fn ufs(tail: &[u8]) -> Result<Option<Command<'_>>, Expected> {
    const TAG: &[u8] = b"tag: ";
    let expected = "the step of a UFS command and its tag";
    let text = tail.trim_ascii();
    if text.split(|&byte| byte == b' ').next().is_some_and(|word| word.contains(&b'=')) {
        return ufs_fields(text);
    }
    let tag_at = memchr::memmem::find_iter(text, TAG)
        .find(|&at| at > 0 && text[at - 1] == b' ')
        .ok_or(expected)?;
    // The step ends with a colon, and so does the name of the device, which has colons itself.
    let head = text[..tag_at].trim_ascii_end();
    let step_end = head.iter().position(|byte| matches!(byte, b':' | b' ')).unwrap_or(head.len());
    let device = head[step_end..].strip_prefix(b":").unwrap_or(&head[step_end..]);
    let device = device.strip_suffix(b":").unwrap_or(device).trim_ascii();
    let mut ufs = Ufs { device, step: &head[..step_end], ..Ufs::default() };
    let mut has_opcode = false;
    for member in text[tag_at..].split(|&byte| byte == b',') {
        let Some(colon) = memchr::memchr(b':', member) else { continue };
        let value = Cursor::new(&member[colon + 1..]).word().unwrap_or_default();
        match member[..colon].trim_ascii() {
            b"tag" => ufs.tag = whole_number(value),
            b"size" => ufs.bytes = whole_number(value),
            b"LBA" => ufs.block = whole_number(value),
            b"opcode" => {
                ufs.opcode = hexadecimal(value).ok_or("the operation code of a UFS command")?;
                has_opcode = true;
            }
            b"hwq_id" => ufs.queue = whole_number(value),
            _ => {}
        }
    }
    if !has_opcode {
        return Err("the operation code of a UFS command");
    }
    Ok(ufs.command())
}

/// Parses `dev_name=1d84000.ufshc doorbell=0 intr=0 lba=6221511 opcode=40 str=send_req tag=7
/// transfer_len=4096`: the members field by field, as tools print them that do not know the event.
fn ufs_fields(text: &[u8]) -> Result<Option<Command<'_>>, Expected> {
    let expected = "the operation code of a UFS command, after opcode=";
    let number =
        |key| value(text, key).and_then(|text| hexadecimal(text).or_else(|| whole_number(text)));
    let step = value(text, b"str=")
        .or_else(|| value(text, b"str_t="))
        .ok_or("the step of a UFS command, after str=")?;
    // Newer kernels number the steps.
    let step = match step {
        b"0" => &b"send_req"[..],
        b"1" => b"complete_rsp",
        step => step,
    };
    let ufs = Ufs {
        device: value(text, b"dev_name=").unwrap_or_default(),
        step,
        tag: number(b"tag="),
        bytes: number(b"transfer_len="),
        block: number(b"lba="),
        opcode: number(b"opcode=").ok_or(expected)?,
        queue: number(b"hwq_id="),
    };
    Ok(ufs.command())
}

fn hexadecimal(text: &[u8]) -> Option<u64> {
    let digits =
        text.strip_prefix(b"0x").filter(|digits| !digits.is_empty() && digits.len() <= 16)?;
    digits
        .iter()
        .try_fold(0, |value, &byte| Some(value << 4 | u64::from(char::from(byte).to_digit(16)?)))
}

/// A SCSI address: host, channel, id and LUN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScsiAddress(pub [u32; 4]);

impl ScsiAddress {
    /// Writes the address as `0:0:0:4`. A buffer of 44 bytes holds every address.
    pub(crate) fn write<'a>(&self, buffer: &'a mut [u8; 44]) -> &'a [u8] {
        use std::io::Write as _;
        let [host, channel, id, lun] = self.0;
        let mut rest = &mut buffer[..];
        // The buffer is long enough: four numbers of at most ten digits and three colons.
        let _ = write!(rest, "{host}:{channel}:{id}:{lun}");
        let left = rest.len();
        &buffer[..44 - left]
    }
}

/// Parses `host_no=0 channel=0 id=0 lun=0 data_sgl=20 prot_sgl=0 prot_op=0x0 driver_tag=19
/// scheduler_tag=40 cmnd=(READ_10 lba=505083904 txlen=2560 protect=0 raw=28 00 ...)
/// [result=(driver=DRIVER_OK host=DID_OK message=COMMAND_COMPLETE status=SAM_STAT_GOOD)]`. The
/// operation code is the first byte of the command.
pub(crate) fn scsi(kind: TraceKind, tail: &[u8]) -> Result<(TraceEvent, ScsiAddress), Expected> {
    let expected = "the address of a SCSI command, host_no= channel= id= lun=";
    let command_at =
        memchr::memmem::find(tail, b"cmnd=(").ok_or("the command of a SCSI command, cmnd=(...)")?;
    let (head, command) = (&tail[..command_at], &tail[command_at + 6..]);
    let (command, result) = match memchr::memmem::find(command, b") result=(") {
        Some(end) => (&command[..end], &command[end + 10..]),
        None => (command.trim_ascii_end(), &b""[..]),
    };
    let of = |text: &[u8], key: &[u8]| value(text, key).and_then(whole_number);
    let address = [&b"host_no="[..], b"channel=", b"id=", b"lun="]
        .map(|key| of(head, key).and_then(|number| u32::try_from(number).ok()));
    let [Some(host), Some(channel), Some(id), Some(lun)] = address else { return Err(expected) };
    let opcode =
        value(command, b"raw=").and_then(hexadecimal_byte).ok_or("the bytes of a SCSI command")?;
    let mut event = TraceEvent::new(kind);
    // Older kernels print one tag.
    event.tag = of(head, b"driver_tag=")
        .or_else(|| of(head, b"tag="))
        .and_then(|tag| u32::try_from(tag).ok());
    let blocks = of(command, b"txlen=");
    place(
        &mut event,
        opcode,
        of(command, b"lba="),
        blocks.map(|blocks| blocks.saturating_mul(SECTOR_SIZE)),
    );
    if kind == TraceKind::Complete && !result.is_empty() {
        let is_good = |key: &[u8], names: [&[u8]; 2]| {
            value(result, key).is_none_or(|value| names.contains(&value))
        };
        let is_good = is_good(b"host=", [b"DID_OK", b"0x0"])
            && is_good(b"status=", [b"SAM_STAT_GOOD", b"0x0"])
            && is_good(b"driver=", [b"DRIVER_OK", b"0x0"]);
        // The block layer's error is not in the event: any error is EIO.
        event.error = Some(if is_good { 0 } else { -5 });
    }
    Ok((event, ScsiAddress([host, channel, id, lun])))
}

/// Returns the text after `key=`, up to a blank or a closing parenthesis.
fn value<'a>(text: &'a [u8], key: &[u8]) -> Option<&'a [u8]> {
    let at = memchr::memmem::find_iter(text, key).find(|&at| at == 0 || text[at - 1] == b' ')?;
    let rest = &text[at + key.len()..];
    let end = rest.iter().position(|byte| matches!(byte, b' ' | b')')).unwrap_or(rest.len());
    Some(&rest[..end])
}

fn hexadecimal_byte(text: &[u8]) -> Option<u8> {
    let &[high, low] = text else { return None };
    let digit = |byte: u8| char::from(byte).to_digit(16);
    Some((digit(high)? << 4 | digit(low)?) as u8)
}
