// A real agent: it listens for kills, confirms them, and reports each line that it reads as an event. What follows `use`
// is a command that its guarded tool is to run.

import { createInterface } from 'node:readline'
import { createMonitor } from '@wardline/sdk'

const [url = '', instanceId = ''] = process.argv.slice(2)
const monitor = createMonitor({
  url,
  key: process.env.WARDLINE_KEY ?? '',
  instanceId,
  version: '1.2.3',
  failMode: 'closed',
})
monitor.on('suspend', () => console.log('suspended'))
monitor.on('resume', () => console.log('resumed'))
await monitor.start()
console.log('ready')
const shell = monitor.guardTool('shell-exec', async (/** @type {{ command: string }} */ _args) => undefined, {
  onDeny: 'return',
})
for await (const line of createInterface(process.stdin)) {
  if (line.startsWith('use ')) {
    // Until its next heartbeat an agent may believe that there are no decoys.
    await monitor.refresh()
    const outcome = await shell({ command: line.slice(4) })
    console.log(outcome?.denied ? 'denied' : 'done')
    continue
  }
  monitor.report({ severity: 'warning', eventType: 'policy_note', description: line })
  await monitor.flush()
}
await monitor.stop()
