import { afterEach, describe, expect, it } from 'vitest'
import { createEgress } from '../../../egress/open-egress.ts'
import { dataUri, registrationFile, startAgent, startSite, type TestAgent } from '../../../testing/https-site.ts'
import { readRegistration } from './registration-file.ts'

const agentRegistry = 'eip155:84532:0x8004A818BFB912233c491871b3d84c89A494BD9e'
const file = registrationFile('https://agent.example/')

const opened: (() => unknown)[] = []
afterEach(async () => {
  for (const close of opened.splice(0).reverse()) await close()
})

function read(uri: string, { agentId = '7', allow = ['127.0.0.1/32'], deadlineMs = 5_000 } = {}) {
  const egress = createEgress({ guarded: true, allow, deadlineMs })
  opened.push(() => egress.close())
  return readRegistration({ uri, agentRegistry, agentId, egress })
}

/** A file that the agent serves at its address. */
async function served(content: TestAgent['file']): Promise<string> {
  const agent = await startAgent()
  opened.push(() => agent[Symbol.asyncDispose]())
  agent.file = content
  return `${agent.url}/.well-known/agent-registration.json`
}

const refusal = (error: string, message: RegExp) => ({ error, message: expect.stringMatching(message) })

describe('a registration file', () => {
  it('is read from an https address, as base64 or percent-encoded in a data URI', async () => {
    const text = JSON.stringify(file)
    const uris = [
      await served(file),
      dataUri(file),
      `data:application/json,${encodeURIComponent(text)}`,
      `DATA:application/json;charset=UTF-8,${text}`,
    ]
    for (const uri of uris) expect(await read(uri)).toMatchObject({ text, applies: [] })
  })

  it('names what is checked: web, A2A and MCP, also where they are called endpoints, and the url of ERC-8126', async () => {
    const services = [
      { name: 'web', endpoint: 'https://a.example/' },
      { name: 'A2A', endpoint: 'https://a.example/card', version: '0.3.0' },
      { name: 'OASF', endpoint: 'ipfs://x' },
      { name: 'email', endpoint: 'a@a.example' },
    ]
    const endpoints = [
      { name: 'MCP', endpoint: 'https://mcp.example/' },
      { name: 'mcp', endpoint: 'https://a.example/' },
    ]
    const found = await read(dataUri({ ...file, services, endpoints, url: 'http://b.example/' }))
    expect(found.endpoints).toEqual([
      { url: 'https://a.example/', kind: 'page' },
      { url: 'https://a.example/card', kind: 'api' },
      { url: 'https://mcp.example/', kind: 'api' },
      { url: 'http://b.example/', kind: 'page' },
    ])
    expect((await read(dataUri({ ...file, services: [] }))).endpoints).toEqual([])
  })

  it('says which of the other checks of ERC-8126 apply', async () => {
    const applies = async (more: object) => (await read(dataUri({ ...file, ...more }))).applies
    expect(await applies({ contractAddress: '', imageUrl: null })).toEqual([])
    expect(await applies({ image: 'https://a.example/a.svg' })).toEqual(['mcv'])
    expect(await applies({ solidityCode: '0x1', contractAddress: '0x1', imageUrl: 'x' })).toEqual(['etv', 'mcv', 'scv'])
  })

  it('must name the agent where it names any', async () => {
    const named = (agentId: unknown, registry = agentRegistry) =>
      dataUri({ ...file, registrations: [{ agentId, agentRegistry: registry }] })
    for (const uri of [named(7), named('7'), named(7, agentRegistry.toLowerCase())])
      expect(await read(uri)).toMatchObject({ applies: [] })
    const huge = '57896044618658097711785492504343953926634992332820282019728792003956564819967'
    expect(await read(named(huge), { agentId: huge })).toMatchObject({ applies: [] })
    const other = refusal('VerificationFailed', /do not name agent 7 of eip155:84532/)
    for (const uri of [named(8), named('07'), named(7, agentRegistry.replace('84532', '1'))])
      await expect(read(uri)).rejects.toMatchObject(other)
  })

  it.each([
    ['ipfs://bafybeigdyrzt', /begins with ipfs:, and only https: and data:application\/json can be checked/],
    ['http://agent.example/', /begins with http:/],
    ['data:text/html,x', /begins with data:/],
    ['', /begins with no URI/],
    ['https://a.example/\u0000\u001b[2J', /begins with https:/],
    [`https://a.example/${'x'.repeat(2_048)}`, /begins with https:/],
    ['https://user:secret@a.example/', /begins with https:/],
  ])('is not looked for at %j', async (uri, sentence) => {
    await expect(read(uri)).rejects.toMatchObject(refusal('InvalidURL', sentence))
  })

  it.each([
    ['no JSON', 'nonsense', /it is not JSON/],
    ['a list', '[]', /It must be a JSON object/],
    ['null', 'null', /It must be a JSON object/],
    ['another type', { ...file, type: 'x' }, /its type is not https/],
    ['no type', { name: 'x' }, /type is required/],
    ['a service without an endpoint', { ...file, services: [{ name: 'web' }] }, /services.0.endpoint is required/],
    ['services of a wrong type', { ...file, services: { web: 'x' } }, /services must be an array/],
    ['a service that is null', { ...file, services: [null] }, /services.0 must be an object/],
    [
      'an endpoint that is a list',
      { ...file, endpoints: [{ name: 'web', endpoint: [] }] },
      /endpoint must be a string/,
    ],
    ['a url that is an object', { ...file, url: {} }, /url must be a string/],
    ['registrations of a wrong type', { ...file, registrations: [7] }, /registrations.0 must be an object/],
    ['an agent id that is no id', { ...file, registrations: [{ agentId: {}, agentRegistry }] }, /agentId/],
    ['more than 60 KiB', { ...file, description: 'x'.repeat(61_500) }, /more than 60 KiB/],
    // Cut at 64 KiB, it would still be JSON.
    ['a tail of spaces', JSON.stringify(file) + ' '.repeat(100_000), /more than 60 KiB/],
  ])('is refused with %s', async (_what, content, sentence) => {
    await expect(read(await served(content))).rejects.toMatchObject(refusal('VerificationFailed', sentence))
  })

  it.each([
    ['broken base64', 'data:application/json;base64,e30', /not encoded as base64/],
    ['other characters in base64', 'data:application/json;base64,e30\u0007', /not encoded as base64/],
    ['bytes that are no UTF-8', 'data:application/json;base64,/////w==', /not text in UTF-8/],
    ['a broken escape', 'data:application/json,%7', /not percent-encoded/],
  ])('is refused as a data URI with %s', async (_what, uri, sentence) => {
    await expect(read(uri)).rejects.toMatchObject(refusal('VerificationFailed', sentence))
  })

  // Neither the stack nor the event loop may suffer: JSON and schema are read within milliseconds.
  it('is read at any depth and with any number of services within its size', async () => {
    const deep = `${'['.repeat(20_000)}${']'.repeat(20_000)}`
    const text = JSON.stringify(file).replace('"registrations":[]', `"registrations":[],"x":${deep}`)
    expect(await read(await served(text))).toMatchObject({ applies: [] })
    const services = Array.from({ length: 10_000 }, (_, place) => ({
      name: 'web',
      endpoint: `https://a.example/${place}`,
    }))
    await expect(read(await served({ ...file, services }))).rejects.toMatchObject({ error: 'VerificationFailed' })
    const short = services.slice(0, 1_000)
    expect((await read(await served({ ...file, services: short }))).endpoints).toHaveLength(1_000)
    const polluting = JSON.stringify(file).replace('{', '{"__proto__":{"contractAddress":"0x1"},')
    expect((await read(await served(polluting))).applies).toEqual([])
    expect(Object.hasOwn(Object.prototype, 'contractAddress')).toBe(false)
  })

  // SSRF: the owner of an agent could otherwise reach the network of the service.
  it('is not read from a private network, directly or by a redirect', async () => {
    const forbidden = { error: 'VerificationFailed', note: 'The registration file could not be read.' }
    await expect(read('https://169.254.169.254/latest')).rejects.toMatchObject(forbidden)
    const agent = await startAgent()
    opened.push(() => agent[Symbol.asyncDispose]())
    await expect(read(`${agent.url}/.well-known/agent-registration.json`, { allow: [] })).rejects.toMatchObject(
      forbidden,
    )
    expect(agent.asked).toEqual([])
    await using redirecting = await startSite((_request, response) =>
      response.writeHead(302, { location: 'https://169.254.169.254/' }).end(),
    )
    await expect(read(redirecting.url)).rejects.toMatchObject(forbidden)
    await using plain = await startSite((_request, response) =>
      response.writeHead(302, { location: 'http://127.0.0.1/' }).end(),
    )
    await expect(read(plain.url)).rejects.toMatchObject(refusal('VerificationFailed', /leads away from https: http:/))
    await using away = await startSite((_request, response) => response.writeHead(404).end('{}'))
    await expect(read(away.url)).rejects.toMatchObject(refusal('VerificationFailed', /answered with status 404/))
  })
})
