import { expect, test } from 'vitest'
import { AgentHome, sample } from '../testing/agent-command.ts'
import { answerPlainly, startHostileService } from '../testing/hostile-service.ts'
import { agentId, TestFleet } from '../testing/service.ts'

const call = sample('claude-code.PreToolUse.Bash.agent-sdk-0.3.330')

/** A proxy before the real service that kills the agent just before it passes on a request. Lists the requests. */
async function killBefore(fleet: TestFleet, path: RegExp) {
  const asked: string[] = []
  const url = await startHostileService(async ({ method = '', url = '', headers }, response, body) => {
    asked.push(url.replace(/^.*\//, ''))
    if (path.test(url) && asked.filter((name) => path.test(`/${name}`)).length === 1) await fleet.kill('exfiltration')
    const sent = { 'x-monitor-key': String(headers['x-monitor-key']), 'content-type': 'application/json' }
    const answer = await fetch(`${fleet.wire.url}${url}`, { method, headers: sent, ...(body ? { body } : {}) })
    response.writeHead(answer.status, Object.fromEntries(answer.headers)).end(await answer.text())
  })
  const env = { WARDLINE_URL: url, WARDLINE_KEY: fleet.agentKey, WARDLINE_INSTANCE_ID: agentId }
  return { home: new AgentHome(env), asked }
}

// The poll of the hook was answered before the kill.
test.each([
  ['its decoy check', /\/(?:key|path)$/, 0],
  ['its report', /\/batch$/, 1],
])('a kill before %s denies the call', { timeout: 60_000 }, async (_name, path, reports) => {
  await using fleet = await TestFleet.open()
  await fleet.plantKey('openai')
  const { home, asked } = await killBefore(fleet, path)
  const { code, stderr } = await home.hook(['claude-code'], call)
  expect(stderr).toContain('exfiltration')
  expect(code).toBe(2)
  expect(asked.filter((name) => name === 'batch')).toHaveLength(reports)
  expect((await fleet.instance()).control).toMatchObject({ confirmed: true, version: 1 })
  expect((await home.hook(['claude-code'], call)).code).toBe(2)
})

test('a header that is always there denies nothing', { timeout: 60_000 }, async () => {
  let polls = 0
  const url = await startHostileService((request, response, body) => {
    if (request.url?.endsWith('/status')) polls += 1
    response.setHeader('wardline-suspended', '9')
    answerPlainly(request, response, body)
  })
  const home = new AgentHome({ WARDLINE_URL: url, WARDLINE_KEY: 'key', WARDLINE_INSTANCE_ID: agentId })
  expect(await home.hook(['claude-code'], call)).toEqual({ code: 0, stdout: '', stderr: '' })
  expect(polls).toBeLessThanOrEqual(3)
})
