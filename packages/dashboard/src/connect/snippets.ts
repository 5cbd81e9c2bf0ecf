export const tabs = ['typescript', 'claude-code', 'codex', 'cursor', 'mcp', 'python', 'curl'] as const
export type Tab = (typeof tabs)[number]

export const tabNames: Record<Tab, string> = {
  typescript: 'TypeScript',
  'claude-code': 'Claude Code',
  codex: 'Codex',
  cursor: 'Cursor',
  mcp: 'MCP',
  python: 'Python',
  curl: 'curl',
}

interface Given {
  /** Address at which this browser reaches the service. */
  url: string
  /** An instance id. */
  agent: string
  key: string
}

interface Step {
  label: string
  text: string
}

const typescript = ({ url, agent, key }: Given): Step[] => [
  { label: 'In the folder of the agent', text: `npm install ${url}/sdk.tgz\nexport WARDLINE_KEY=${key}` },
  {
    label: 'agent.mts',
    text: [
      "import { readFile } from 'node:fs/promises'",
      "import { createMonitor } from '@wardline/sdk'",
      '',
      `const monitor = createMonitor({ url: '${url}', key: process.env.WARDLINE_KEY!, instanceId: '${agent}' })`,
      'await monitor.start()',
      "const read = monitor.guardTool('file-read', (path: string) => readFile(path, 'utf8'))",
    ].join('\n'),
  },
  { label: 'Run it; Node 24 takes TypeScript as it is', text: 'node agent.mts' },
]

const python = ({ url, agent, key }: Given): Step[] => [
  { label: 'In the folder of the agent', text: `curl -O ${url}/wardline.py\nexport WARDLINE_KEY=${key}` },
  {
    label: 'agent.py',
    text: `import os
from wardline import Denied, Monitor

url, key = '${url}', os.environ['WARDLINE_KEY']
monitor = Monitor(url, key, '${agent}', 'Support bot', state_file='support-bot.state')

@monitor.guard_tool('file-read')    # for async functions too
def read_file(path):
    with open(path) as file:
        return file.read()

with monitor:
    print(read_file('wardline.py')[:40])`,
  },
  { label: 'Run it', text: 'python3 agent.py' },
]

const curl = ({ url, agent, key }: Given): Step[] => [
  {
    label: 'In bash or zsh',
    text: `export WARDLINE_KEY=${key}
call() { curl -sS "${url}/api/$1" -H "X-Monitor-Key: $WARDLINE_KEY" -H 'Content-Type: application/json' "\${@:2}"; echo; }`,
  },
  {
    label: 'A heartbeat every 60 seconds, the kill switch, a check before a file is opened',
    text: `call heartbeat -d '{"instance_id":"${agent}","name":"Support bot","agent_type":"langgraph","version":"1.4.0","fail_mode":"closed","control_version":0}'
call instances/${agent}/status
call honeypots/check/path -d '{"path":"../.aws/credentials","meta":{"tool":"file-read","cwd":"/home/bot/work"}}'`,
  },
]

const installAgent = (url: string): Step => ({
  label: 'On the machine of the agent',
  text: `npm install -g ${url}/sdk.tgz`,
})

const hook =
  (tool: Tab) =>
  ({ url, agent, key }: Given): Step[] => [
    installAgent(url),
    {
      label: 'Settings, for you alone',
      text: `mkdir -p ~/.config/wardline
(umask 077; cat > ~/.config/wardline/agent.json) <<'END'
{ "url": "${url}", "key": "${key}", "instanceId": "${agent}", "failMode": "open" }
END`,
    },
    { label: 'Checks the key, shows the change, asks, keeps a backup', text: `wardline-agent install ${tool}` },
  ]

const mcp = ({ url, agent, key }: Given): Step[] => [
  installAgent(url),
  {
    label: 'In the settings of the MCP client, around the command of any server',
    text: JSON.stringify(
      {
        mcpServers: {
          files: {
            command: 'wardline-agent',
            args: ['mcp-proxy', '--', 'npx', '-y', '@modelcontextprotocol/server-filesystem', '/srv/files'],
            env: { WARDLINE_URL: url, WARDLINE_KEY: key, WARDLINE_INSTANCE_ID: agent },
          },
        },
      },
      null,
      2,
    ),
  },
]

/** Setup steps by kind of agent: the lines of the guides, with the address, the agent and its key filled in. */
export const stepsOf: Record<Tab, (given: Given) => Step[]> = {
  typescript,
  'claude-code': hook('claude-code'),
  codex: hook('codex'),
  cursor: hook('cursor'),
  mcp,
  python,
  curl,
}

/** Explains when the first heartbeat arrives. */
export const firstWord: Record<Tab, string> = {
  typescript: 'It comes when the program starts.',
  'claude-code': 'It comes with the first tool call of Claude Code.',
  codex: 'It comes with the first tool call of Codex. Enter /hooks there first and trust the hook.',
  cursor: 'It comes with the first tool call of Cursor.',
  mcp: 'It comes when the client starts the server.',
  python: 'It comes when the program starts.',
  curl: 'It comes with the first line.',
}
