//! The extension module `elevon._elevon`: runs and sweeps of [`elevon_sweep::lab`] as Python calls.
//!
//! Work runs on a thread of its own without the interpreter's lock, while the calling thread looks
//! for signals, so that Ctrl-C ends a run within a tenth of a second.
#![forbid(unsafe_code)]

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use elevon_sweep::lab::{
    self, Column, Interrupt, LabError, Over, RunEnding, RunSeries, SweepSpec, Texts,
};
use numpy::IntoPyArray;
use pyo3::create_exception;
use pyo3::exceptions::{PyKeyboardInterrupt, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

create_exception!(
    _elevon,
    InputError,
    PyValueError,
    "The job, an option or an axis is wrong; a line for each error."
);
create_exception!(_elevon, MachineError, PyRuntimeError, "The machine failed to do something.");

/// How often signals are looked for.
const LOOK: Duration = Duration::from_millis(50);

fn raised(error: &LabError) -> PyErr {
    match error {
        LabError::Input(text) => InputError::new_err(text.clone()),
        LabError::Machine(text) => MachineError::new_err(text.clone()),
    }
}

/// Does work on a thread of its own, and hands what it sends to `took` with the interpreter's lock.
/// A signal whose handler raises, or an exception of `took`, interrupts the work.
fn work<T: Send, M: Send>(
    py: Python<'_>,
    task: impl FnOnce(&Interrupt, &Sender<M>) -> Result<T, LabError> + Send,
    mut took: impl FnMut(Python<'_>, M) -> PyResult<()> + Send,
) -> PyResult<T> {
    let interrupt = Interrupt::new();
    let (sender, receiver) = channel::<M>();
    let of_task = interrupt.clone();
    py.detach(move || {
        std::thread::scope(|scope| {
            // The sender ends with the task, which ends the wait.
            let thread = scope.spawn(move || task(&of_task, &sender));
            let stopped = listen(&receiver, &mut took);
            if stopped.is_err() {
                interrupt.set();
            }
            let done = thread
                .join()
                .map_err(|_| PyRuntimeError::new_err("a run panicked; please report it"))?;
            stopped?;
            done.map_err(|error| raised(&error))
        })
    })
}

/// Receives until the sender is gone.
fn listen<M>(
    receiver: &Receiver<M>,
    took: &mut impl FnMut(Python<'_>, M) -> PyResult<()>,
) -> PyResult<()> {
    loop {
        match receiver.recv_timeout(LOOK) {
            Ok(message) => Python::attach(|py| {
                py.check_signals()?;
                took(py, message)
            })?,
            Err(RecvTimeoutError::Timeout) => Python::attach(|py| py.check_signals())?,
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
    }
}

/// Runs jobs. Returns the report as JSON, the series as a dict of arrays, the warnings, and whether
/// a job failed.
#[pyfunction]
fn run(
    py: Python<'_>,
    jobs: Vec<String>,
    options: Vec<String>,
    texts: Texts,
) -> PyResult<(String, Py<PyDict>, Vec<String>, bool)> {
    let run = work(
        py,
        |interrupt, _: &Sender<()>| lab::run(&jobs, &options, texts, interrupt),
        |_, ()| Ok(()),
    )?;
    if run.ending == RunEnding::Interrupted {
        return Err(PyKeyboardInterrupt::new_err(()));
    }
    Ok((run.report, series(py, run.series)?, run.warnings, run.ending == RunEnding::Failed))
}

/// Returns a series as arrays, which take the memory that the columns already have.
fn series(py: Python<'_>, series: RunSeries) -> PyResult<Py<PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("at_ns", series.at_ns.into_pyarray(py))?;
    for (what, columns) in [("bytes", series.bytes), ("ios", series.ios)] {
        for (direction, column) in ["read", "write", "trim"].into_iter().zip(columns) {
            dict.set_item(format!("{direction}_{what}"), column.into_pyarray(py))?;
        }
    }
    dict.set_item("in_flight", series.in_flight.into_pyarray(py))?;
    Ok(dict.unbind())
}

/// The values of an axis: a text as the command takes it, or a list of words.
#[derive(FromPyObject)]
enum Values {
    Text(String),
    List(Vec<String>),
}

/// A sweep, whose runs are numbered from 0.
#[pyclass(frozen, module = "elevon._elevon")]
struct Sweep(lab::Sweep);

#[pymethods]
impl Sweep {
    #[new]
    fn new(
        job: String,
        options: Vec<String>,
        over: Vec<(String, Values)>,
        sample: Option<String>,
        seeds: Option<String>,
        compare: Option<String>,
        texts: Texts,
    ) -> PyResult<Self> {
        let over = over.into_iter().map(|(key, values)| match values {
            Values::Text(text) => (key, Over::Text(text)),
            Values::List(list) => (key, Over::List(list)),
        });
        let spec = SweepSpec { job, options, over: over.collect(), sample, seeds, compare, texts };
        lab::Sweep::new(spec).map(Self).map_err(|error| raised(&error))
    }

    /// The number of runs.
    fn __len__(&self) -> usize {
        self.0.runs()
    }

    /// Checks the plan of every point. Returns their warnings, each once.
    fn check(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        work(py, |interrupt, _: &Sender<()>| self.0.check(interrupt), |_, ()| Ok(()))
    }

    /// Does some runs, and calls `took` with the number and the outcome of each as it ends.
    #[pyo3(signature = (numbers, threads, took))]
    fn run(
        &self,
        py: Python<'_>,
        numbers: Vec<usize>,
        threads: Option<u16>,
        took: Py<PyAny>,
    ) -> PyResult<()> {
        work(
            py,
            |interrupt, done| {
                // If the receiver is gone, the interrupt is set as well.
                let told = |run, outcome| drop(done.send((run, outcome)));
                self.0.run_all(&numbers, threads, interrupt, told)
            },
            |py, (run, outcome): (usize, String)| took.call1(py, (run, outcome)).map(drop),
        )
    }

    /// Puts the outcomes of all runs together.
    fn results(&self, py: Python<'_>, outcomes: Vec<String>) -> PyResult<SweepResults> {
        let results = py.detach(|| self.0.results(outcomes.iter().map(String::as_str)));
        let results = results.map_err(|error| raised(&error))?;
        let (files, columns) = (PyDict::new(py), PyDict::new(py));
        for (name, bytes) in results.files {
            files.set_item(name, PyBytes::new(py, &bytes))?;
        }
        for (name, column) in results.columns {
            match column {
                Column::Count(values) => columns.set_item(name, values.into_pyarray(py))?,
                Column::Figure(values) => columns.set_item(name, values.into_pyarray(py))?,
                Column::Text(words) => columns.set_item(name, words)?,
            }
        }
        let (files, columns) = (files.unbind(), columns.unbind());
        Ok(SweepResults { files, columns, summary: results.summary, json: results.json })
    }
}

/// The results of a sweep.
#[pyclass(frozen, get_all, module = "elevon._elevon")]
struct SweepResults {
    /// The files that the command writes, by name.
    files: Py<PyDict>,
    /// The columns of the table, by name.
    columns: Py<PyDict>,
    /// The summary as text.
    summary: String,
    /// The summary as JSON.
    json: String,
}

/// The part of elevon that is not written in Python.
#[pymodule]
fn _elevon(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("InputError", py.get_type::<InputError>())?;
    module.add("MachineError", py.get_type::<MachineError>())?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_function(wrap_pyfunction!(run, module)?)?;
    module.add_class::<Sweep>()?;
    module.add_class::<SweepResults>()?;
    Ok(())
}
