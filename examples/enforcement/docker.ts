// An enforcement point that stops the containers of a suspended agent, found by the label wardline.instance=<id>.
//
//   WARDLINE_ENFORCEMENT_SECRET=whsec_… node examples/enforcement/docker.ts
//
// DOCKER_SOCKET is the socket of the Docker Engine API (default: /var/run/docker.sock). Containers are stopped, not
// removed, so their state remains for an investigation; a resume starts them again. Restart policies do not start a
// stopped container.

import { send, serve, setting } from './verify.ts'

const socketPath = setting('DOCKER_SOCKET', '/var/run/docker.sock')
const api = 'http://docker/v1.44'

async function containersOf(instance: string, all: boolean): Promise<string[]> {
  const filters = encodeURIComponent(JSON.stringify({ label: [`wardline.instance=${instance}`] }))
  const url = `${api}/containers/json?all=${all}&filters=${filters}`
  const found = (await send({ url, socketPath }, [200])) as { Id: string }[]
  return found.map(({ Id }) => Id)
}

serve(
  async ({ action, instance_id }) => {
    const ids = await containersOf(instance_id, true)
    // Fail if no container was found: a wrong label must not look like a success.
    if (ids.length === 0) throw new Error(`no container has the label wardline.instance=${instance_id}`)
    // 304: already stopped or started. Docker kills a container that still runs after 5 seconds.
    const verb = action === 'suspend' ? 'stop?t=5' : 'start'
    await Promise.all(
      ids.map((id) => send({ url: `${api}/containers/${id}/${verb}`, socketPath, method: 'POST' }, [204, 304])),
    )
    const running = action === 'suspend' ? await containersOf(instance_id, false) : []
    if (running.length > 0) throw new Error(`${running.length} containers of ${instance_id} are still running`)
  },
  async () => {
    await send({ url: `${api}/version`, socketPath }, [200])
  },
)
