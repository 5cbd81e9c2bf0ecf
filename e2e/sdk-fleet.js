// Real agents in one process: each listens for kills, confirms them, and reports while it may.

import { createMonitor } from '@wardline/sdk'

const [url = '', prefix = '', count = ''] = process.argv.slice(2)
const monitors = Array.from({ length: Number(count) }, (_, n) =>
  createMonitor({ url, key: process.env.WARDLINE_KEY ?? '', instanceId: `${prefix}-${n}`, tags: [`fleet:${prefix}`] }),
)
await Promise.all(monitors.map((monitor) => monitor.start()))
setInterval(() => {
  for (const monitor of monitors) {
    if (!monitor.suspended) monitor.report({ severity: 'info', eventType: 'tool_call', description: 'A call' })
  }
}, 1_000)
console.log('ready')
