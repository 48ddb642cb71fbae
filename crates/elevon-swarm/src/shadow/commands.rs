//! What commands do to the contents of the device: a command carries versions, lands whole, in
//! part or not at all, and a power cut leaves some of them.

use super::*;

impl Shadow {
    /// Records a command that the device accepted.
    pub(crate) fn on_command(&mut self, issued: &Issued) {
        self.clock += 1;
        let Issued { command, pieces, silent, .. } = issued;
        let mut carries = Vec::new();
        if self.has_bytes && command.op.is_write() {
            for piece in pieces {
                for (n, sector) in sectors_of(piece).enumerate() {
                    carries.push((sector, self.source(piece, n)));
                }
            }
            if carries.iter().any(|&(_, version)| version == GARBAGE) {
                self.accuse("contents", format!("{command:?} writes what was never read"));
            }
        }
        let carried =
            Carried { command: *command, pieces: pieces.clone(), carries, silent: *silent };
        if self.has_bytes && command.op.is_write() {
            let mut landing = carried.landing();
            if silent.is_some() {
                self.damaged
                    .extend(carried.carries.iter().chain(&landing).map(|&(sector, _)| sector));
            }
            // If a page was read rotten, the part of it that was not overwritten is written back.
            self.damaged.extend(
                landing
                    .iter()
                    .filter(|&&(_, version)| version == ROTTEN)
                    .map(|&(sector, _)| sector),
            );
            landing.sort_unstable();
            self.written.insert(command.sequence, landing);
        }
        self.carried.insert(command.request.0, carried);
    }

    /// Returns the version of sector `n` of a piece in memory.
    fn source(&self, piece: &Piece, n: usize) -> u64 {
        let key = (piece.task.0, piece.token);
        if !Token::is_of_cache(piece.token) {
            return self.doing.get(&key).map_or(GARBAGE, |doing| doing.version);
        }
        let at = piece.offset as usize / SECTOR_SIZE as usize + n;
        self.bios
            .get(&key)
            .map_or(GARBAGE, |bio| self.frames[bio.frames[at / SECTORS].0 as usize][at % SECTORS])
    }

    /// Handles a completion.
    pub(crate) fn on_completion(&mut self, completion: &Completion) {
        self.clock += 1;
        let Some(mut carried) = self.carried.remove(&completion.request.0) else { return };
        let command = carried.command;
        let is_whole = completion.status.is_ok() && completion.bytes >= command.bytes;
        if !is_whole {
            // The bytes before an error have been moved: bios that lie entirely in them succeed.
            carried.pieces = first_bytes(&carried.pieces, completion.bytes.get());
        }
        for piece in &carried.pieces {
            let is_missed = self.spoils(Sabotage::MissPiece);
            if let Some(bio) = self.bios.get_mut(&(piece.task.0, piece.token)) {
                bio.moved += if is_missed { 0 } else { piece.len };
            }
        }
        if !is_whole && command.op != Op::Read {
            return carried.carries.into_iter().for_each(|(sector, _)| self.loosen(sector));
        }
        if !self.has_bytes {
            return;
        }
        let is_rotten = carried.silent == Some(Silent::Rotten);
        match command.op {
            Op::Read if self.spoils(Sabotage::GarbleRead) => {}
            Op::Read => carried.pieces.iter().for_each(|piece| self.fill(piece, is_rotten)),
            _ => self.store(&carried),
        }
    }

    /// Fills memory with the sectors of a piece that the device has read.
    fn fill(&mut self, piece: &Piece, is_rotten: bool) {
        let key = (piece.task.0, piece.token);
        for (n, sector) in sectors_of(piece).enumerate() {
            let held = if is_rotten { ROTTEN } else { self.on_device(sector) };
            if let Some(bio) = self.bios.get(&key) {
                let at = piece.offset as usize / SECTOR_SIZE as usize + n;
                self.frames[bio.frames[at / SECTORS].0 as usize][at % SECTORS] = held;
            } else if let Some(doing) = self.doing.get(&key) {
                let since = doing.begun;
                self.look(
                    sector,
                    held,
                    since,
                    &format!("direct read {}/{} begun at {since}", piece.task.0, piece.token),
                );
            }
        }
    }

    /// Stores the sectors of a command on the device.
    fn store(&mut self, carried: &Carried) {
        let Carried { command, pieces, carries, .. } = carried;
        let mut at = 0;
        if self.spoils(Sabotage::ChangeFrame) {
            self.frames.iter_mut().flatten().for_each(|version| *version ^= 1 << 62);
        }
        for piece in pieces {
            for n in 0..sectors_of(piece).count() {
                if command.op == Op::Write && self.source(piece, n) != carries[at].1 {
                    let now = self.source(piece, n);
                    self.accuse(
                        "stable",
                        format!("{command:?} wrote {:?}, which is {now} now", carries[at]),
                    );
                }
                at += 1;
            }
        }
        if self.spoils(Sabotage::ForgetWrite) {
            return;
        }
        self.device.extend(carried.landing());
    }

    /// Handles the abort of a command.
    pub(crate) fn on_abort(&mut self, command: &Command) {
        self.clock += 1;
        if let Some(Carried { carries, .. }) = self.carried.remove(&command.request.0) {
            carries.into_iter().for_each(|(sector, _)| self.loosen(sector));
        }
    }

    /// Handles a power cut; `left` is what the device now holds, by block.
    pub(crate) fn on_cut(&mut self, left: &Survivors, block_size: u64) {
        self.clock += 1;
        let mut device = BTreeMap::new();
        for (&block, &generation) in left {
            let Some(list) =
                generation.checked_sub(1).and_then(|sequence| self.written.get(&sequence))
            else {
                continue;
            };
            let per_block = block_size / SECTOR_SIZE;
            for sector in block * per_block..(block + 1) * per_block {
                if let Ok(at) = list.binary_search_by_key(&sector, |&(sector, _)| sector) {
                    device.insert(sector, list[at].1);
                }
            }
        }
        let old = std::mem::replace(&mut self.device, device);
        let known: BTreeSet<u64> = old.keys().chain(self.device.keys()).copied().collect();
        let mut lost = BTreeSet::new();
        for sector in known {
            let (before, now) = (old.get(&sector).copied().unwrap_or(0), self.on_device(sector));
            let floor = self.cells.get(&sector).map_or(0, |cell| cell.floor);
            if now < floor && !self.is_planned(sector, now) {
                let message =
                    format!("sector {sector} holds {now} after a cut of power, {floor} was synced");
                self.accuse("synced", message);
            }
            if before != now {
                self.loosen(sector);
                lost.insert(sector);
            }
        }
        // A sync in progress had found these sectors written and does not learn of the power cut:
        // it promises nothing of them, even if they are written again.
        for doing in self.doing.values_mut() {
            doing.promises.retain(|(sector, _)| !lost.contains(sector));
            doing.landed.retain(|(sector, _)| !lost.contains(sector));
        }
    }
}
