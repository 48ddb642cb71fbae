//! Pools: devices of a configuration that share one scheduler.

use std::collections::BTreeSet;

use crate::diagnostic::{Diagnostic, Problem};
use crate::serve::{DeviceTable, PoolPart};
use crate::toml_reader::Given;
use crate::toml_text::quoted;

/// Puts devices into the pools that name them. Returns what is left, and the pools, in the order of
/// the file.
pub(super) fn joined(
    mut devices: Vec<DeviceTable>,
    pools: Vec<(DeviceTable, Vec<Given>)>,
    complaints: &mut Vec<Diagnostic>,
) -> Vec<DeviceTable> {
    let mut taken: BTreeSet<String> = BTreeSet::new();
    let mut all = Vec::new();
    for (mut pool, names) in pools {
        if devices.iter().any(|device| device.name == pool.name) {
            let key = format!("pool.{}", quoted(&pool.name));
            complaints.push(
                pool.place.diagnostic(&key, Problem::Conflict.because("a device has this name")),
            );
        }
        for given in &names {
            match part(given, &mut devices, &taken) {
                Ok(part) => {
                    taken.insert(part.name.clone());
                    pool.parts.push(part);
                }
                Err(complaint) => complaints.push(complaint),
            }
        }
        let value = names.iter().map(|given| given.value.clone()).collect::<Vec<_>>().join(", ");
        pool.device = Given { value, ..names[0].clone() };
        all.push(pool);
    }
    all.extend(devices);
    all.sort_by_key(|device| (device.place.line, device.place.column));
    all
}

/// Takes the device that a pool names out of the others.
fn part(
    given: &Given,
    devices: &mut Vec<DeviceTable>,
    taken: &BTreeSet<String>,
) -> Result<PoolPart, Diagnostic> {
    let name = &given.value;
    let wrong =
        |message: String| given.place.diagnostic(&given.key, Problem::Conflict.because(message));
    if taken.contains(name) {
        return Err(wrong(format!("{name}: is in a pool already")));
    }
    let Some(at) = devices.iter().position(|device| device.name == *name) else {
        return Err(wrong(format!(
            "{name}: no such device; there is no [device.{}]",
            quoted(name)
        )));
    };
    let device = devices.remove(at);
    let mut plain = DeviceTable::empty(&device.name, device.place.clone());
    (plain.device, plain.is_raw) = (device.device.clone(), device.is_raw);
    if plain != device {
        let key = format!("device.{}", quoted(name));
        let message =
            "a device of a pool has the keys device and format; the others are those of the pool";
        return Err(device.place.diagnostic(&key, Problem::Conflict.because(message)));
    }
    Ok(PoolPart { name: device.name, device: device.device, is_raw: device.is_raw })
}

/// Yields the names by which exports name a device, or the devices of a pool.
pub(super) fn names(device: &DeviceTable) -> impl Iterator<Item = &str> {
    let own = device.parts.is_empty().then_some(device.name.as_str());
    own.into_iter().chain(device.parts.iter().map(|part| part.name.as_str()))
}

/// Returns the index of the device, or of the pool of the device, of a name, with the name if it is
/// in a pool.
pub(super) fn find(devices: &[DeviceTable], name: &str) -> Option<(usize, Option<String>)> {
    let index = devices.iter().position(|device| names(device).any(|known| known == name))?;
    Some((index, (!devices[index].parts.is_empty()).then(|| name.to_owned())))
}
