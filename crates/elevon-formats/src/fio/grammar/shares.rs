//! Lists of shares: `bssplit`, `cmdprio_bssplit`, `random_distribution`.

use super::super::draft::{Draft, SplitPart, class};
use super::super::number::{Scan, Unit, by_direction};
use super::super::spec::Distribution;
use crate::diagnostic::{Complaint, Problem};
use elevon_core::ioprio::IoPrio;

/// The maximum number of entries of one `bssplit` direction.
const SIZES: usize = 64;
/// The maximum number of zones of one direction.
const ZONES: usize = 256;
/// The maximum number of blocks of a `sequence`.
const SEQUENCE: usize = 65_536;
/// fio's parameter of zipf if none is given.
const ZIPF_THETA: f64 = 1.1;
const PARETO_POWER: f64 = 0.2;

fn percent(text: &str) -> Result<Option<u32>, Complaint> {
    match text.trim() {
        "" => Ok(None),
        text => match text.parse() {
            Ok(value @ 0..=100) => Ok(Some(value)),
            _ => Err(Problem::Malformed
                .because(format!("`{text}` is no share; must be a whole percentage, 0 to 100"))),
        },
    }
}

/// Divides what is left of 100 evenly among blank shares; the last of them gets the remainder.
fn fill_blanks<T: Copy>(
    list: &[(T, Option<u32>)],
    scan: &mut Scan,
) -> Result<Vec<(T, u32)>, Complaint> {
    let sum: u32 = list.iter().filter_map(|&(_, share)| share).sum();
    if sum > 100 {
        return Err(Problem::OutOfRange
            .because(format!("the shares add up to {sum} %; must be 100 % at most")));
    }
    let blanks = list.iter().filter(|(_, share)| share.is_none()).count() as u32;
    let mut left = 100 - sum;
    let each = left.checked_div(blanks).unwrap_or(0);
    let mut seen = 0;
    let mut filled: Vec<(T, u32)> = Vec::with_capacity(list.len());
    for &(value, share) in list {
        let share = share.unwrap_or_else(|| {
            seen += 1;
            let share = if seen == blanks { left } else { each };
            left -= share;
            share
        });
        filled.push((value, share));
    }
    if blanks == 0 && left > 0 {
        scan.note(format!("the shares add up to {sum} %; the last entry gets the other {left} %"));
        filled.last_mut().expect("a list has an entry").1 += left;
    }
    Ok(filled)
}

pub(in super::super) fn bssplit(
    draft: &mut Draft,
    scan: &mut Scan,
    text: &str,
) -> Result<(), Complaint> {
    let list = by_direction(text, |part| {
        let mut sizes = Vec::new();
        for entry in part.split(':').filter(|entry| !entry.trim().is_empty()) {
            let (bytes, share) = entry.split_once('/').unwrap_or((entry, ""));
            let bytes = scan.unsigned(bytes, Unit::Plain)?;
            if !(1..=u64::from(u32::MAX)).contains(&bytes) {
                return Err(Problem::OutOfRange.because(format!(
                    "`{entry}` is out of range; a size must be 1 byte to 4 GiB"
                )));
            }
            sizes.push((bytes, percent(share)?));
        }
        if sizes.is_empty() || sizes.len() > SIZES {
            return Err(Problem::TooMany.because(format!(
                "`{part}` has {} sizes; must be 1 to {SIZES}, such as 4k/60:64k/40",
                sizes.len()
            )));
        }
        fill_blanks(&sizes, scan)
    })?;
    for (slot, split) in draft.splits.iter_mut().zip(list) {
        if split.is_some() {
            *slot = split;
        }
    }
    Ok(())
}

/// Parses `SIZE/PERCENT` or `SIZE/PERCENT/CLASS/LEVEL[/HINT]`, separated by colons. A blank share
/// is 0, unlike that of `bssplit`: I/Os without a share keep the priority of the job.
pub(in super::super) fn command_prio_split(
    draft: &mut Draft,
    scan: &mut Scan,
    text: &str,
) -> Result<(), Complaint> {
    let list = by_direction(text, |part| {
        let entries = part.split(':').filter(|entry| !entry.trim().is_empty());
        let parts = entries.map(|entry| split_part(entry, scan)).collect::<Result<Vec<_>, _>>()?;
        if parts.is_empty() || parts.len() > SIZES {
            return Err(Problem::TooMany.because(format!(
                "`{part}` has {} sizes; must be 1 to {SIZES}, such as 4k/60:64k/40",
                parts.len()
            )));
        }
        for one in &parts {
            let sum: u32 =
                parts.iter().filter(|p| p.bytes == one.bytes).map(|p| u32::from(p.percent)).sum();
            if sum > 100 {
                return Err(Problem::OutOfRange.because(format!(
                    "the shares of {} bytes add up to {sum} %; must be 100 % at most",
                    one.bytes
                )));
            }
        }
        Ok(parts)
    })?;
    draft.command_prio.split(list);
    Ok(())
}

fn split_part(entry: &str, scan: &mut Scan) -> Result<SplitPart, Complaint> {
    let fields: Vec<&str> = entry.split('/').collect();
    let whole = |text: &str, what: &str, low: u16, high: u16| match text.trim().parse::<u16>() {
        Ok(value) if (low..=high).contains(&value) => Ok(value),
        _ => Err(Problem::OutOfRange.because(format!(
            "the {what} `{text}` of `{entry}` is out of range; must be {low} to {high}"
        ))),
    };
    let prio = match fields.as_slice() {
        [_] | [_, _] => None,
        [_, _, group, level, hint @ ..] if hint.len() <= 1 => {
            let group = class(whole(group, "class", 1, 3)? as u8);
            let level = whole(level, "level", 0, 7)? as u8;
            let hint = hint.first().map_or(Ok(0), |hint| whole(hint, "hint", 0, 1023))?;
            Some(IoPrio::new(group, level).with_hint(hint))
        }
        _ => {
            let count = fields.len();
            return Err(Problem::Malformed.because(format!(
                "`{entry}` has {count} fields; must be SIZE/PERCENT, or SIZE/PERCENT/CLASS/LEVEL[/HINT]"
            )));
        }
    };
    let bytes = scan.unsigned(fields[0], Unit::Plain)?;
    let percent = fields.get(1).map_or(Ok(None), |share| percent(share))?.unwrap_or(0) as u8;
    Ok(SplitPart { bytes, percent, prio })
}

pub(in super::super) fn distribution(
    draft: &mut Draft,
    scan: &mut Scan,
    text: &str,
) -> Result<(), Complaint> {
    let (name, arguments) =
        text.split_once(':').map_or((text, None), |(name, rest)| (name, Some(rest)));
    let list = match name {
        "zoned" | "zoned_abs" => {
            let arguments = arguments.ok_or_else(|| {
                Problem::Missing.because(format!(
                    "`{text}` lacks its zones; must be {name}:ACCESS%/RANGE with colons between"
                ))
            })?;
            by_direction(arguments, |part| zones(part, name == "zoned", scan))?
        }
        "random" => [const { Some(Distribution::Random) }; 3],
        "sequence" => {
            let one = sequence(arguments.unwrap_or(""), scan)?;
            [Some(one.clone()), Some(one.clone()), Some(one)]
        }
        "zipf" | "pareto" | "normal" => {
            let one = skewed(name, arguments.unwrap_or(""))?;
            [Some(one.clone()), Some(one.clone()), Some(one)]
        }
        _ => {
            let choices = "random zipf pareto normal zoned zoned_abs sequence";
            return Err(Problem::NoChoice
                .because(format!("`{name}` is no distribution; must be one of {choices}")));
        }
    };
    // The whole job has one form of distribution: a direction that is left out is uniform.
    draft.spec.random.distribution = list.map(|one| one.unwrap_or(Distribution::Random));
    Ok(())
}

/// Parses numbers of blocks with commas between. Whether rounds go on is an option of its own.
fn sequence(text: &str, scan: &mut Scan) -> Result<Distribution, Complaint> {
    let entries = text.split(',').filter(|entry| !entry.trim().is_empty());
    let blocks =
        entries.map(|entry| scan.unsigned(entry, Unit::Plain)).collect::<Result<Vec<u64>, _>>()?;
    if blocks.is_empty() || blocks.len() > SEQUENCE {
        let count = blocks.len();
        return Err(Problem::TooMany.because(format!(
            "`{text}` has {count} blocks; must be 1 to {SEQUENCE}, such as sequence:0,2,1,3"
        )));
    }
    Ok(Distribution::Sequence { blocks, stride: false })
}

fn real(text: &str) -> Result<f64, Complaint> {
    match text.trim().parse::<f64>() {
        Ok(value) if value.is_finite() => Ok(value),
        _ => Err(Problem::Malformed
            .because(format!("`{text}` is no decimal number; must be one such as 1.2"))),
    }
}

fn skewed(name: &str, arguments: &str) -> Result<Distribution, Complaint> {
    let (first, second) =
        arguments.split_once(':').map_or((arguments, None), |(a, b)| (a, Some(b)));
    let parameter = |default| if first.trim().is_empty() { Ok(default) } else { real(first) };
    let centre = second.filter(|text| !text.trim().is_empty()).map(real).transpose()?;
    if centre.is_some_and(|centre| !(0.0..=1.0).contains(&centre)) {
        return Err(Problem::OutOfRange.because(format!(
            "the centre in `{name}:{arguments}` is out of range; must be 0 to 1"
        )));
    }
    match name {
        "zipf" => match parameter(ZIPF_THETA)? {
            theta if theta < 0.0 || theta == 1.0 => Err(Problem::OutOfRange
                .because(format!("theta {theta} is out of range; must be 0 or more, and not 1"))),
            theta => Ok(Distribution::Zipf(theta, centre)),
        },
        "pareto" => match parameter(PARETO_POWER)? {
            power if power <= 0.0 || power >= 1.0 => Err(Problem::OutOfRange
                .because(format!("power {power} is out of range; must be between 0 and 1"))),
            power => Ok(Distribution::Pareto(power, centre)),
        },
        _ => match parameter(0.0)? {
            deviation if !(0.0..100.0).contains(&deviation) => Err(Problem::OutOfRange
                .because(format!("deviation {deviation} is out of range; must be 0 up to 100"))),
            deviation => Ok(Distribution::Normal(deviation, centre)),
        },
    }
}

fn zones(text: &str, relative: bool, scan: &mut Scan) -> Result<Distribution, Complaint> {
    let mut zones = Vec::new();
    for entry in text.split(':').filter(|entry| !entry.trim().is_empty()) {
        let Some((access, range)) = entry.split_once('/') else {
            return Err(Problem::Malformed
                .because(format!("`{entry}` is no zone; must be ACCESS%/RANGE, such as 60/10")));
        };
        let access = percent(access)?.ok_or_else(|| {
            Problem::Missing.because(format!("`{entry}` lacks its share of accesses"))
        })?;
        let range = if relative {
            u64::from(percent(range)?.unwrap_or(u32::MAX))
        } else {
            scan.unsigned(range, Unit::Plain)?
        };
        zones.push((access, range));
    }
    if zones.is_empty() || zones.len() > ZONES {
        return Err(Problem::TooMany
            .because(format!("`{text}` has {} zones; must be 1 to {ZONES}", zones.len())));
    }
    let sum: u32 = zones.iter().map(|&(access, _)| access).sum();
    if sum != 100 {
        return Err(Problem::OutOfRange
            .because(format!("the shares of accesses add up to {sum} %; must be 100 %")));
    }
    if !relative {
        return Ok(Distribution::ZonedAbsolute(zones));
    }
    let ranges: Vec<(u32, Option<u32>)> = zones
        .iter()
        .map(|&(access, range)| (access, u32::try_from(range).ok().filter(|&range| range <= 100)))
        .collect();
    let filled = fill_blanks(&ranges, scan)
        .map_err(|why| why.reworded(|words| format!("ranges: {words}")))?;
    Ok(Distribution::Zoned(filled))
}
