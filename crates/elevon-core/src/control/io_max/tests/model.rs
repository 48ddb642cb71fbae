//! The rules of `io.max` with plain vectors: every level is searched for the next dispatch, and
//! every path is walked for each bio.

extern crate std;
use std::vec;
use std::vec::Vec;

use super::super::{Config, Limits};
use crate::control::BioCost;
use crate::control::limits::UNLIMITED;
use crate::tenant::{ROOT, Tenants};
use crate::units::TenantId;

#[derive(Clone, Copy, Default)]
struct Slice {
    start: i128,
    end: i128,
    bytes: i128,
    ios: i128,
}

#[derive(Clone, Copy)]
struct Item {
    bio: u32,
    bytes: i128,
    paid: bool,
}

#[derive(Clone, Default)]
struct Level {
    limits: Limits,
    slices: [Slice; 2],
    /// Sources in the order of their turns, each with its items.
    sources: [Vec<(TenantId, Vec<Item>)>; 2],
    due: Option<(i128, u64)>,
}

pub(super) struct Model {
    hz: i128,
    slice: i128,
    in_series: bool,
    levels: Vec<Level>,
    sequence: u64,
}

impl Model {
    pub(super) fn new(config: &Config) -> Self {
        let (hz, ms) = (i128::from(config.hz.0), i128::from(config.slice_ms));
        Self { hz, slice: ms * hz / 1000, in_series: config.in_series, levels: vec![], sequence: 0 }
    }

    fn level(&mut self, level: TenantId) -> &mut Level {
        if level.index() >= self.levels.len() {
            self.levels.resize(level.index() + 1, Level::default());
        }
        &mut self.levels[level.index()]
    }

    pub(super) fn held(&self) -> usize {
        self.levels
            .iter()
            .flat_map(|level| level.sources.iter().flatten())
            .map(|source| source.1.len())
            .sum()
    }

    pub(super) fn next_wakeup(&self) -> Option<u64> {
        self.levels.iter().filter_map(|level| level.due).min().map(|due| due.0 as u64)
    }

    fn earned(&self, rate: u64, ticks: i128) -> i128 {
        i128::from(rate) * ticks / self.hz
    }

    fn up(&self, ticks: i128) -> i128 {
        (ticks + self.slice - 1) / self.slice * self.slice
    }

    pub(super) fn set(&mut self, tick: u64, tenant: TenantId, limits: Limits) {
        let tick = i128::from(tick);
        let old = self.level(tenant).limits;
        for d in 0..2 {
            let busy = !self.levels[tenant.index()].sources[d].is_empty();
            let slice = self.levels[tenant.index()].slices[d];
            let carried = |used: i128, rate: u64| match rate == UNLIMITED || !busy {
                true => 0,
                false => used - self.earned(rate, tick - slice.start),
            };
            let (bytes, ios) = (carried(slice.bytes, old.bps[d]), carried(slice.ios, old.iops[d]));
            self.levels[tenant.index()].slices[d] =
                Slice { start: tick, end: tick + self.slice, bytes, ios };
        }
        self.levels[tenant.index()].limits = limits;
        if self.levels[tenant.index()].due.is_some() {
            self.rekey(tick, tenant);
        }
    }

    pub(super) fn withdraw(&mut self, tick: u64, is_chosen: impl Fn(u32) -> bool) {
        for level in (0..self.levels.len()).map(|index| TenantId(index as u32)) {
            let before = self.held();
            for sources in &mut self.levels[level.index()].sources {
                sources.iter_mut().for_each(|(_, items)| items.retain(|item| !is_chosen(item.bio)));
                sources.retain(|(_, items)| !items.is_empty());
            }
            if self.held() < before {
                self.rekey(i128::from(tick), level);
            }
        }
    }

    /// Returns the ticks that a bio has to wait at a level.
    fn wait(&mut self, tick: i128, at: TenantId, d: usize, item: &mut Item) -> i128 {
        let level = &self.levels[at.index()];
        let (bps, iops) = (level.limits.bps[d], level.limits.iops[d]);
        let mut slice = level.slices[d];
        if (tick < slice.start || tick > slice.end) && level.sources[d].is_empty() {
            slice = Slice { start: tick, end: tick + self.slice, bytes: 0, ios: 0 };
        } else if slice.end < tick + self.slice {
            slice.end = self.up(tick + self.slice);
        }
        let elapsed = tick - slice.start;
        let mut wait = 0;
        if !item.paid && bps != UNLIMITED {
            let rounded = if elapsed == 0 { self.slice } else { self.up(elapsed) };
            let over = slice.bytes + item.bytes - self.earned(bps, rounded);
            if over > 0 {
                wait = (over * self.hz / i128::from(bps)).max(1) + rounded - elapsed;
            }
        }
        if wait == 0 {
            if self.in_series && !item.paid {
                slice.bytes += item.bytes;
                item.paid = true;
            }
            let rounded = self.up(elapsed + 1);
            if iops != UNLIMITED && slice.ios + 1 > self.earned(iops, rounded) {
                let interval = if self.in_series { self.hz / i128::from(iops) + 1 } else { 0 };
                wait = interval.max(rounded - elapsed);
            }
        }
        if wait > 0 && slice.end < tick + wait {
            slice.end = self.up(tick + wait);
        }
        self.levels[at.index()].slices[d] = slice;
        wait
    }

    fn pay(&mut self, tick: i128, at: TenantId, d: usize, item: &Item) {
        let Limits { bps, iops, .. } = self.levels[at.index()].limits;
        let mut slice = self.levels[at.index()].slices[d];
        slice.bytes += if item.paid { 0 } else { item.bytes };
        slice.ios += 1;
        if tick >= slice.start && tick <= slice.end {
            slice.end = self.up(tick + self.slice);
            let over = (tick - slice.start) / self.slice - i128::from(self.in_series);
            if over > 0 {
                let earned =
                    |rate| if rate == UNLIMITED { 0 } else { self.earned(rate, over * self.slice) };
                let (bytes, ios) = (earned(bps[d]), earned(iops[d]));
                // The budget reduces the use to zero at most; a use below zero, carried over by a
                // change, remains.
                let less = |used: i128, by: i128| match self.in_series && by == 0 {
                    true => used.min(0),
                    false => (used - by).max(used.min(0)),
                };
                if self.in_series || bytes > 0 || ios > 0 {
                    slice = Slice {
                        start: slice.start + over * self.slice,
                        bytes: less(slice.bytes, bytes),
                        ios: less(slice.ios, ios),
                        ..slice
                    };
                }
            }
        }
        self.levels[at.index()].slices[d] = slice;
    }

    fn push(&mut self, tick: i128, at: TenantId, source: TenantId, d: usize, item: Item) {
        let level = self.level(at);
        match level.sources[d].iter_mut().find(|known| known.0 == source) {
            Some(known) => known.1.push(item),
            None => level.sources[d].push((source, vec![item])),
        }
        let alone = level.sources[d].iter().map(|source| source.1.len()).sum::<usize>() == 1;
        if alone || level.due.is_none() {
            self.rekey(tick, at);
        }
    }

    fn rekey(&mut self, tick: i128, at: TenantId) {
        let mut waits = vec![];
        for d in 0..2 {
            if let Some(mut item) =
                self.levels[at.index()].sources[d].first().map(|source| source.1[0])
            {
                waits.push(self.wait(tick, at, d, &mut item));
                self.levels[at.index()].sources[d][0].1[0] = item;
            }
        }
        self.levels[at.index()].due =
            waits.into_iter().min().map(|wait| (tick + wait, self.sequence));
        self.sequence += u64::from(self.levels[at.index()].due.is_some());
    }

    fn above(tenants: &Tenants, at: TenantId) -> Option<TenantId> {
        tenants.parent(at).filter(|&parent| parent != ROOT)
    }

    pub(super) fn admit(
        &mut self,
        tick: u64,
        tenants: &Tenants,
        bio: u32,
        charge: &BioCost,
    ) -> bool {
        let (tick, d) = (i128::from(tick), charge.direction() as usize);
        let path: Vec<TenantId> = tenants.path(charge.tenant).collect();
        let limited = |limits: Limits| limits.bps[d] != UNLIMITED || limits.iops[d] != UNLIMITED;
        if !path.iter().any(|&at| limited(self.level(at).limits)) {
            return true;
        }
        let bytes = if charge.first { i128::from(charge.bytes) } else { 0 };
        let mut item = Item { bio, bytes, paid: bytes == 0 };
        let mut source = charge.tenant;
        for &at in &path {
            if !self.levels[at.index()].sources[d].is_empty()
                || self.wait(tick, at, d, &mut item) > 0
            {
                self.push(tick, at, source, d, item);
                return false;
            }
            self.pay(tick, at, d, &item);
            item.paid = bytes == 0;
            source = at;
        }
        true
    }

    pub(super) fn release(&mut self, tick: u64, tenants: &Tenants) -> Vec<u32> {
        let tick = i128::from(tick);
        let (mut all, mut run, mut went) = (vec![], [vec![], vec![]], 0);
        loop {
            let due = self
                .levels
                .iter()
                .enumerate()
                .filter_map(|(at, level)| level.due.map(|due| (due, at)))
                .min();
            let Some(((_, _), at)) = due.filter(|due| due.0.0 <= tick) else { break };
            let at = TenantId(at as u32);
            for (d, turn) in [(0, 6), (1, 2)] {
                for _ in 0..turn {
                    let Some(mut item) =
                        self.levels[at.index()].sources[d].first().map(|source| source.1[0])
                    else {
                        break;
                    };
                    let wait = self.wait(tick, at, d, &mut item);
                    self.levels[at.index()].sources[d][0].1[0] = item;
                    if wait > 0 {
                        break;
                    }
                    let (source, mut items) = self.levels[at.index()].sources[d].remove(0);
                    items.remove(0);
                    if !items.is_empty() {
                        self.levels[at.index()].sources[d].push((source, items));
                    }
                    self.rise(tick, tenants, at, d, item, &mut run);
                    went += 1;
                }
            }
            self.rekey(tick, at);
            if went >= 32 {
                hand_out(&mut run, &mut all);
                went = 0;
            }
        }
        hand_out(&mut run, &mut all);
        all
    }

    fn rise(
        &mut self,
        tick: i128,
        tenants: &Tenants,
        at: TenantId,
        d: usize,
        mut item: Item,
        run: &mut [Vec<(TenantId, u32)>; 2],
    ) {
        self.pay(tick, at, d, &item);
        let Some(parent) = Self::above(tenants, at) else {
            run[d].push((at, item.bio));
            return;
        };
        let child = self.levels[at.index()].slices[d].start;
        let end = tick + self.slice;
        let level = self.level(parent);
        let slice = level.slices[d];
        if (tick < slice.start || tick > slice.end) && level.sources[d].is_empty() {
            level.slices[d] = Slice { start: slice.start.max(child), end, bytes: 0, ios: 0 };
        }
        item.paid = item.bytes == 0;
        self.push(tick, parent, at, d, item);
    }
}

/// Releases reads, then writes; one of each source in turn.
fn hand_out(run: &mut [Vec<(TenantId, u32)>; 2], all: &mut Vec<u32>) {
    for list in run {
        while !list.is_empty() {
            let mut seen = vec![];
            list.retain(|&(source, bio)| {
                let again = seen.contains(&source);
                if !again {
                    seen.push(source);
                    all.push(bio);
                }
                again
            });
        }
    }
}
