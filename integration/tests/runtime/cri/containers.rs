//! Containers in a sandbox.

use k8s_cri::v1::{
    ContainerConfig, ContainerStatus, ContainerStatusRequest, CreateContainerRequest,
    ExecSyncRequest, PodSandboxConfig, StartContainerRequest, StopContainerRequest,
};

use super::{Answer, Cri, message};

/// What came of a program that was run in a container.
#[derive(Debug)]
pub(crate) struct Executed {
    /// Its exit code.
    pub(crate) code: i32,
    /// Everything it printed.
    pub(crate) said: String,
}

impl Cri {
    /// Creates a container in a sandbox, starts it, and returns its id.
    pub(crate) fn start_container(
        &self,
        sandbox: (&str, &PodSandboxConfig),
        config: ContainerConfig,
    ) -> Answer<String> {
        let request = CreateContainerRequest {
            pod_sandbox_id: sandbox.0.to_owned(),
            config: Some(config),
            sandbox_config: Some(sandbox.1.clone()),
        };
        let mut client = self.client.clone();
        let created = self.runtime.block_on(client.create_container(request));
        let container_id = created.map_err(message)?.into_inner().container_id;
        let request = StartContainerRequest {
            container_id: container_id.clone(),
        };
        let started = self.runtime.block_on(client.start_container(request));
        started.map_err(message)?;
        Ok(container_id)
    }

    /// Runs a program in a container, for so many seconds at most.
    pub(crate) fn exec(&self, id: &str, command: &[&str], seconds: i64) -> Answer<Executed> {
        let request = ExecSyncRequest {
            container_id: id.to_owned(),
            cmd: command.iter().map(|word| (*word).to_owned()).collect(),
            timeout: seconds,
        };
        let mut client = self.client.clone();
        let answer = self.runtime.block_on(client.exec_sync(request));
        let answer = answer.map_err(message)?.into_inner();
        let said = [answer.stdout, answer.stderr].concat();
        Ok(Executed {
            code: answer.exit_code,
            said: String::from_utf8_lossy(&said).into_owned(),
        })
    }

    /// Sends SIGTERM to a container, and kills it after so many seconds.
    pub(crate) fn stop_container(&self, id: &str, seconds: i64) -> Answer<()> {
        let request = StopContainerRequest {
            container_id: id.to_owned(),
            timeout: seconds,
        };
        let mut client = self.client.clone();
        let answer = self.runtime.block_on(client.stop_container(request));
        answer.map(drop).map_err(message)
    }

    /// What the runtime tells of a container.
    pub(crate) fn container(&self, id: &str) -> ContainerStatus {
        let request = ContainerStatusRequest {
            container_id: id.to_owned(),
            verbose: false,
        };
        let mut client = self.client.clone();
        let answer = self.runtime.block_on(client.container_status(request));
        answer.unwrap().into_inner().status.unwrap()
    }
}
