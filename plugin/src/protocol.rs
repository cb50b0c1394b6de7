//! One run of the plugin: what comes in, what goes out, and nothing else on standard output.

use std::{
    io::{Read, Write},
    process::ExitCode,
};

use crate::{
    add, check,
    clock::Clock,
    cni::{self, Attachment, Code, Command, Environment, Error, NetworkConfig, Version},
    del, gc,
    kubernetes::ApiServer,
    log,
    record::{DIRECTORY, Records},
    report, status,
};

/// The largest network configuration that is read. libcni's own are a few KiB.
const MOST_BYTES: u64 = 16 << 20;

/// Serves one verb: reads `stdin`, writes one JSON document or nothing to `stdout`.
pub fn run(environment: &impl Environment, stdin: impl Read, mut stdout: impl Write) -> ExitCode {
    let mut version = Version::CURRENT;
    let mut clock = Clock::start();
    let served = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        serve(environment, stdin, &mut version, &mut clock)
    }));
    // The panic's text has gone to standard error.
    let served = served.unwrap_or_else(|panic| Err(panicked(&*panic)));
    let (document, code) = match served {
        Ok(document) => (document, ExitCode::SUCCESS),
        Err(error) => {
            tracing::warn!(
                code = error.code() as u32,
                details = error.details(),
                "{error}"
            );
            report::failure(environment, &error, clock.phases());
            (Some(error.document(version)), ExitCode::FAILURE)
        }
    };
    let written = document.map_or(Ok(()), |document| writeln!(stdout, "{document}"));
    match written.and_then(|()| stdout.flush()) {
        Ok(()) => code,
        Err(error) => {
            tracing::warn!(%error, "The result could not be written to standard output");
            ExitCode::FAILURE
        }
    }
}

fn serve(
    environment: &impl Environment,
    stdin: impl Read,
    version: &mut Version,
    clock: &mut Clock,
) -> Result<Option<String>, Error> {
    let command = cni::command(environment)?;
    let mut input = Vec::new();
    let read = stdin.take(MOST_BYTES).read_to_end(&mut input);
    let config =
        match read {
            Ok(_) => NetworkConfig::parse(&input),
            Err(error) => Err(Error::new(Code::Io, "standard input cannot be read")
                .with_details(error.to_string())),
        };
    start_log(config.as_ref().ok());
    if let Ok(config) = &config {
        *version = config.version;
    }
    let records = Records::in_directory(DIRECTORY);
    match command {
        Command::Version => return Ok(Some(cni::version_document(*version))),
        Command::Del => {
            forget(environment, config, &records);
            return Ok(None);
        }
        _ => {}
    }
    let config = config?;
    match command {
        Command::Add => {
            let attachment = attachment(environment)?;
            let mut cluster = api_server(&config);
            let document = add::add(&config, &attachment, &mut cluster, &records, clock)?;
            return Ok(Some(document));
        }
        Command::Check => {
            check::check(
                &config,
                &attachment(environment)?,
                &mut api_server(&config),
                &records,
            )?;
        }
        Command::Gc => gc::gc(&config, &records)?,
        Command::Status => status::status(&config)?,
        Command::Del | Command::Version => {}
    }
    Ok(None)
}

/// A log file that cannot be used costs a warning and nothing else.
fn start_log(config: Option<&NetworkConfig>) {
    let level = config.map_or("warn", |config| &config.log_level);
    match config.map(NetworkConfig::log_file).transpose() {
        Ok(file) => log::init(level, file.flatten()),
        Err(error) => {
            log::init(level, None);
            tracing::warn!("{error}; there is no log file");
        }
    }
}

/// DEL takes whatever it is given: a runtime that is refused here never gets rid of the pod.
fn forget(environment: &impl Environment, config: Result<NetworkConfig, Error>, records: &Records) {
    if let Err(error) = config {
        tracing::warn!(%error, details = error.details(), "DEL goes on without its configuration");
    }
    match attachment(environment) {
        Ok(attachment) => del::del(&attachment, records),
        Err(error) => tracing::warn!(%error, "Nothing can be removed"),
    }
}

fn attachment(environment: &impl Environment) -> Result<Attachment, Error> {
    let attachment = Attachment::read(environment)?;
    for warning in &attachment.warnings {
        tracing::warn!("{warning}");
    }
    Ok(attachment)
}

fn api_server(config: &NetworkConfig) -> ApiServer {
    ApiServer::new(config.kubernetes().unwrap_or_default().kubeconfig)
}

fn panicked(panic: &(dyn std::any::Any + Send)) -> Error {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("a panic");
    let msg = "the plugin failed by a fault of its own; please report it with the details";
    Error::new(Code::Internal, msg).with_details(text)
}
