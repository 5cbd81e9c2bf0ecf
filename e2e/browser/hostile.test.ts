import { randomUUID } from 'node:crypto'
import type { Page } from 'playwright-core'
import { beforeAll, describe, expect, test } from 'vitest'
import { screens as paths } from '../../packages/dashboard/src/screens.ts'
import { effort } from '../../test-servers/effort.ts'
import { isExternal, type Service, until } from '../service.ts'
import { nowhereYet, useScreens } from './browser.ts'
import { injections } from './injections.ts'

// Texts of agents, operators and receivers stay text on every screen, in every stored field.

const screens = useScreens({ WARDLINE_ALERT_ALLOW_CIDRS: '127.0.0.0/8' })
/** Names of object properties are valid ids too. */
const agentNames = ['__proto__', 'constructor', 'hasownproperty', 'valueof', 'null', 'undefined', '-', '0', 'api']
const idOf = (index: number) => agentNames[index] ?? `hostile-${String(index).padStart(3, '0')}`

/** Cuts to the maximum length. Half a surrogate pair would be refused. */
const cut = (text: string, length: number) => text.slice(0, length).toWellFormed().replaceAll('\ufffd', '?')

const inAnHour = () => new Date(Date.now() + 3_600_000).toISOString()

/** Fields that a caller may set, each with all strings in turn. `max`: how many of a kind the service stores. */
const fields: Record<string, { max?: number; send(service: Service, text: string, index: number): Promise<number> }> = {
  'name, type and version of an agent': {
    send: (service, text, index) =>
      put(service, 'POST', '/api/heartbeat', {
        instance_id: idOf(index),
        name: cut(text, 80),
        agent_type: cut(text, 100),
        version: cut(text, 100),
        tags: [['__proto__', 'constructor', 'x'.repeat(40)][index % 3]],
      }),
  },
  'everything of an event': {
    send: (service, text, index) =>
      put(service, 'POST', '/api/events', {
        severity: ['info', 'warning', 'critical', 'breach'][index % 4],
        source: cut(text, 100),
        event_type: ['__proto__', 'constructor', 'tool_call', 'tostring', 'x'.repeat(100)][index % 5],
        description: cut(text, 1_000),
        instance_id: idOf(index),
        session_id: cut(text, 200),
        metadata: { [cut(text, 500)]: cut(text, 8_000), toolName: cut(text, 200), nested: { list: [cut(text, 100)] } },
      }),
  },
  'the reason of a suspension': {
    max: 60,
    send: (service, text, index) => put(service, 'POST', `/api/kill/${idOf(index)}`, { reason: cut(text, 500) }),
  },
  'the reason of a containment': {
    max: 20,
    send: (service, text, index) =>
      put(service, 'POST', '/api/containments', {
        action: 'suspend',
        selector: { instances: [idOf(100 + index)] },
        reason: cut(text, 500),
        confirm: 'suspend 1 agent',
      }),
  },
  'the label of a decoy': {
    send: (service, text, index) =>
      put(service, 'POST', '/api/honeypots', {
        instanceId: idOf(index),
        type: 'api_key',
        keyType: 'openai',
        label: cut(text, 1_000),
      }),
  },
  'the path of a decoy': {
    send: (service, text, index) =>
      put(service, 'POST', '/api/honeypots', {
        instanceId: idOf(index),
        type: 'file_path',
        path: `/srv/${cut(text, 900)}`,
      }),
  },
  'where a decoy is planted': {
    max: 60,
    send: async (service, text, index) => {
      const decoy = { instanceId: idOf(index), type: 'api_key', keyType: 'github' }
      const { id } = (await service.call<{ id: string }>('POST', '/api/honeypots', { body: decoy })).body
      return put(service, 'POST', `/api/honeypots/${id}/planted`, { note: cut(text, 500), file: cut(text, 200) })
    },
  },
  'the reason of an ignored tool': {
    max: 20,
    send: (service, text, index) =>
      put(service, 'POST', '/api/honeypots/ignores', {
        tool: `tool ${index}`,
        reason: cut(text, 500),
        until: inAnHour(),
      }),
  },
  'title, description, values and exceptions of a rule': {
    max: effort(6, 20),
    send: (service, text, index) =>
      put(service, 'POST', '/api/rules', {
        title: cut(text, 256),
        description: cut(text, 4_000),
        severity: 'warning',
        detection: {
          any: { event_type: 'tool_call', 'metadata.toolName': ['*', cut(text, 200)] },
          condition: 'any',
        },
        exceptions: [{ who: { instances: [idOf(index)] }, reason: cut(text, 500), until: inAnHour() }],
      }),
  },
  'description and entries of a list': {
    max: effort(6, 20),
    send: (service, text, index) =>
      put(service, 'PUT', `/api/lists/hostile-${index}`, {
        description: cut(text, 500),
        // An entry is one line.
        entries: [cut(text.replaceAll(/[\0-\x1f\x7f\x85\u2028\u2029]/g, ''), 300).trim() || 'nothing'],
        version: 0,
      }),
  },
  'title and rules of a policy': {
    max: effort(4, 50),
    send: (service, text, index) =>
      put(service, 'POST', '/api/policies', {
        title: `${cut(text, 200)} ${index}`,
        description: cut(text, 500),
        for: { agents: [idOf(index)] },
        rules: [{ title: cut(text, 200), decision: 'ask', match: { tool: 'send', agent: [cut(text, 100)] } }],
      }),
  },
  'tool, reasons and arguments of an approval': {
    max: 40,
    send: (service, text, index) =>
      put(service, 'POST', `/api/instances/${idOf(200 + index)}/approvals`, {
        attempt: randomUUID(),
        session_id: cut(text, 60),
        tool: cut(text, 100).trim() || 'x',
        args_sha256: '0'.repeat(64),
        args: cut(text, 1_000),
        policy_id: randomUUID(),
        policy_version: 1,
        rule: cut(text, 200),
        why: cut(text, 500),
        approvals: 1,
        wait_seconds: 3_600,
      }),
  },
  'the name of a key': {
    send: (service, text) => put(service, 'POST', '/api/keys', { scope: 'viewer', name: cut(text, 80) }),
  },
  'the name of an alert channel': {
    max: 20,
    send: (service, text) =>
      put(service, 'POST', '/api/alert-channels', {
        name: cut(text, 80),
        type: 'webhook',
        settings: { url: `${service.baseUrl}/nowhere` },
      }),
  },
  'the reason of a silence': {
    max: 60,
    send: (service, text) =>
      put(service, 'POST', '/api/silences', {
        match: { types: ['nothing'] },
        reason: cut(text, 500),
        ends_at: inAnHour(),
      }),
  },
  'the name of a view': {
    max: 50,
    send: (service, text, index) =>
      put(service, 'POST', '/api/views', {
        name: cut(text, 80),
        screen: ['fleet', 'events', 'alerts'][index % 3],
        query: 'q=x',
      }),
  },
}

async function put(service: Service, method: string, path: string, body: object): Promise<number> {
  // Three hundred concurrent requests may exceed the capacity of a busy machine.
  return until(
    `an answer of ${path}`,
    async () => (await service.call(method, path, { body })).status,
    (status) => status !== 503,
  )
}

beforeAll(async () => {
  const { service } = screens
  if (isExternal || !service) return
  // Channels and rules come first, so that reports become alerts and firings.
  const isFirst = ([name]: [string, unknown]) => Number(/channel|rule/.test(name))
  const order = Object.entries(fields).sort((one, other) => isFirst(other) - isFirst(one))
  for (const [name, { max = injections.length, send }] of order) {
    const sent = injections.slice(0, max)
    const statuses = await Promise.all(sent.map((text, index) => send(service, text, index)))
    const taken = statuses.filter((status) => status < 300).length
    // Blank texts and texts with forbidden characters are refused.
    expect(taken, `${name}: ${statuses.join(' ')}`).toBeGreaterThan(0.8 * sent.length)
    expect(statuses.filter((status) => status >= 500)).toEqual([])
  }
  const { body } = await service.call<{ alerts: { id: string }[] }>('GET', '/api/alerts?limit=100')
  for (const [index, { id }] of body.alerts.entries()) {
    const text = injections[index]!
    await put(service, 'PATCH', `/api/alerts/${id}`, {
      comment: cut(text, 2_000).trim() || 'x',
    })
  }
})

const guard = `
  globalThis.ran = []
  globalThis.canary = () => ran.push('canary')
  addEventListener('securitypolicyviolation', ({ violatedDirective, blockedURI }) => ran.push(violatedDirective + ' ' + blockedURI))
`

/** Returns texts that were interpreted, and elements outside their place. Runs in the page to read the layout. */
const look = `(() => {
  const faults = [...ran]
  const made = 'img, iframe, object, embed, base, meta[http-equiv], script:not([src]), style, marquee, video, math, template, foreignObject, form[action], [style*="attacker"], [src*="attacker"]'
  for (const element of document.body.querySelectorAll(made)) faults.push('made: ' + element.outerHTML.slice(0, 100))
  for (const { href } of document.links) if (/^(javascript|data|vbscript):/i.test(href) || new URL(href, location).hostname.endsWith('attacker.invalid')) faults.push('leads away: ' + href)
  for (const element of document.body.querySelectorAll('*'))
    for (const { name } of element.attributes) if (name.startsWith('on')) faults.push('handler: ' + name)
  const page = document.documentElement
  if (page.scrollWidth > page.clientWidth) faults.push('the page is ' + page.scrollWidth + ' wide in ' + page.clientWidth)
  const text = (element) => element.className + ': ' + element.textContent.slice(0, 60)
  for (const row of document.querySelectorAll('li, tr, [role=row], .event-line, header, h1, h2, .chips, dialog')) {
    const box = row.getBoundingClientRect()
    if (box.width === 0) continue
    if (row.scrollWidth > row.clientWidth + 1 && getComputedStyle(row).overflowX === 'visible' && row.tagName !== 'TR')
      faults.push('overflows its row: ' + row.tagName + ' ' + text(row))
    for (const child of row.children) {
      const inner = child.getBoundingClientRect()
      if (inner.width > 0 && (inner.right > box.right + 2 || inner.bottom > box.bottom + 2) && getComputedStyle(child).position !== 'absolute' && getComputedStyle(row).overflowX === 'visible')
        faults.push('leaves its row: ' + child.tagName + ' ' + text(child) + ' in ' + row.tagName)
    }
  }
  return [...new Set(faults)].slice(0, 10)
})()`

/** Scrolls the page and all lists from end to end, so that each row is rendered, and checks after each step. */
async function lookThrough(page: Page, where: string): Promise<string[]> {
  const faults = new Set<string>()
  for (let step = 0; step < 60; step++) {
    for (const fault of (await page.evaluate(look)) as string[]) faults.add(`${where}: ${fault}`)
    const moved = (await page.evaluate(`(() => {
      let moved = false
      for (const element of [document.documentElement, ...document.querySelectorAll('main *, dialog, dialog *')]) {
        if (element.scrollHeight <= element.clientHeight + 1 || getComputedStyle(element).overflowY === 'visible') continue
        const before = element.scrollTop
        element.scrollTop += Math.max(200, element.clientHeight * 0.9)
        moved ||= element.scrollTop > before + 1
      }
      return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(moved))))
    })()`)) as boolean
    if (!moved) break
  }
  return [...faults]
}

const agents = effort(
  injections.filter((_, index) => index < 4 || index % 50 === 7),
  injections,
).map((text) => idOf(injections.indexOf(text)))
/** All screens; detail screens with several items. */
async function shownPaths(service: Service): Promise<string[]> {
  const listed = async (name: 'rules' | 'containments' | 'policies' | 'approvals') =>
    (await service.call<Record<string, { id: string }[]>>('GET', `/api/${name}`)).body[name]!.map(({ id }) => id)
  const ids: Record<string, string[]> = {
    '/fleet/:id': agents,
    '/rules/:id': (await listed('rules')).slice(0, effort(3, 20)),
    '/rules/lists/:name': Array.from({ length: effort(3, 20) }, (_, index) => `hostile-${index}`),
    '/policies/:id': (await listed('policies')).slice(0, effort(3, 20)),
    '/approvals/:id': (await listed('approvals')).slice(0, effort(3, 20)),
    '/containments/:id': (await listed('containments')).slice(0, effort(3, 20)),
  }
  return paths.flatMap((path) => (path.includes(':') ? ids[path]!.map((id) => path.replace(/:\w+/, id)) : [path]))
}

describe.each(effort([1440], [1440, 390]))('three hundred injections, %d pixels wide', (width) => {
  test('stay text in their place on every screen', async () => {
    const page = await screens.signedIn({ at: nowhereYet, width })
    await page.context().addInitScript(guard)
    const faults: string[] = []
    for (const path of await shownPaths(screens.service)) {
      await page.goto(path)
      await page.getByRole('heading').first().waitFor()
      await page.locator('main, .panel, form').first().waitFor()
      faults.push(...(await lookThrough(page, path)))
      const tabs = page.locator('main [role=tab], main nav.tabs a')
      for (let tab = 0; tab < (await tabs.count()); tab++) {
        await tabs.nth(tab).click()
        faults.push(...(await lookThrough(page, `${path} tab ${tab}`)))
      }
    }
    expect(faults).toEqual([])
  })

  test('stay text in the drawer, the palette and the dialogs', async () => {
    const page = await screens.signedIn({ at: nowhereYet, width })
    await page.context().addInitScript(guard)
    const faults: string[] = []
    await page.goto('/events')
    await page.locator('.event-line').first().click()
    const drawer = page.getByRole('dialog')
    await drawer.waitFor()
    for (let event = 0; event < effort(40, injections.length); event++) {
      faults.push(...((await page.evaluate(look)) as string[]))
      await page.keyboard.press('j')
    }
    await page.keyboard.press('Escape')
    await drawer.waitFor({ state: 'detached' })
    await page.keyboard.press('Control+k')
    for (const query of ['hostile', 'suspend h', '<', 'canary', '__proto__']) {
      await drawer.getByRole('combobox').fill(query)
      faults.push(...(await lookThrough(page, `palette ${query}`)))
    }
    await page.keyboard.press('Escape')
    const last = idOf(injections.length - 1)
    await page.goto(`/fleet/${last}`)
    await page.getByRole('button', { name: `Suspend ${last}` }).click()
    await drawer.getByText('A command that is running already').waitFor()
    faults.push(...(await lookThrough(page, 'suspend')))
    expect(faults).toEqual([])
  })
})
