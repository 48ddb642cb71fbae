//! Events for which Perfetto has no message and which a bundle describes: since version 50 each has
//! a field number of its own in `FtraceEvent`, from 65536 on, and a descriptor of its message.

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

use super::event::{Layout, generic_number, named_layout};
use super::wire::{Fields, NoMessage, Value};

/// The first field number of such an event.
pub(super) const FIRST_DESCRIBED_FIELD: u32 = 65536;
/// The most fields that an event has, and the most events that are described: more are damage.
const MAX_FIELDS: usize = 64;
const MAX_EVENTS: usize = 4096;

/// Field numbers of `GenericEventDescriptor`, and of the messages `DescriptorProto` and
/// `FieldDescriptorProto` of protobuf, which it contains.
mod field {
    pub(super) const EVENT_FIELD: u32 = 1;
    pub(super) const EVENT_DESCRIPTOR: u32 = 2;
    pub(super) const NAME: u32 = 1;
    pub(super) const MESSAGE_FIELD: u32 = 2;
    pub(super) const FIELD_NUMBER: u32 = 3;
}

/// An event of the block layer.
pub(super) struct DescribedEvent {
    pub(super) layout: Layout,
    /// By field number: the number of a field with this name in the event's layout.
    numbers: Vec<u32>,
}

impl DescribedEvent {
    /// Yields the fields of an event by their numbers in its layout.
    pub(super) fn fields<'a>(
        &self,
        message: &'a [u8],
    ) -> impl Iterator<Item = Result<(u32, Value<'a>), NoMessage>> {
        Fields::of(message).map(|field| {
            let (number, value) = field?;
            Ok((self.numbers.get(number as usize).copied().unwrap_or(u32::MAX), value))
        })
    }
}

/// The events that bundles have described so far.
#[derive(Default)]
pub(super) struct Described {
    /// By field number; `None` for an event that is not of the block layer.
    events: HashMap<u32, Option<DescribedEvent>, FxBuildHasher>,
}

impl Described {
    /// Notes what a descriptor of a bundle says. The first of a number stands: descriptors are the
    /// same in all bundles.
    pub(super) fn add(&mut self, descriptor: &[u8]) -> Result<(), NoMessage> {
        let (mut number, mut message) = (0, &b""[..]);
        for field in Fields::of(descriptor) {
            match field? {
                (field::EVENT_FIELD, value) => number = u32::try_from(value.number()).unwrap_or(0),
                (field::EVENT_DESCRIPTOR, value) => message = value.bytes(),
                _ => {}
            }
        }
        if number >= FIRST_DESCRIBED_FIELD
            && self.events.len() < MAX_EVENTS
            && !self.events.contains_key(&number)
        {
            let event = described(message)?;
            self.events.insert(number, event);
        }
        Ok(())
    }

    /// Returns the event of the block layer that has this field number.
    pub(super) fn event(&self, number: u32) -> Option<&DescribedEvent> {
        self.events.get(&number)?.as_ref()
    }
}

fn described(message: &[u8]) -> Result<Option<DescribedEvent>, NoMessage> {
    let (mut name, mut numbers) = (&b""[..], Vec::new());
    for field in Fields::of(message) {
        match field? {
            (field::NAME, value) => name = value.bytes(),
            (field::MESSAGE_FIELD, value) => {
                let (mut of, mut number) = (&b""[..], 0);
                for field in Fields::of(value.bytes()) {
                    match field? {
                        (field::NAME, value) => of = value.bytes(),
                        (field::FIELD_NUMBER, value) => number = value.number() as usize,
                        _ => {}
                    }
                }
                if number < MAX_FIELDS {
                    numbers.resize(numbers.len().max(number + 1), u32::MAX);
                    numbers[number] = generic_number(of);
                }
            }
            _ => {}
        }
    }
    Ok(named_layout(name).map(|layout| DescribedEvent { layout, numbers }))
}
