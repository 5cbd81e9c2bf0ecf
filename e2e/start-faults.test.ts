import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { startCommand } from './command.ts'
import { isExternal, needsOwnProcess, newDataDir, until } from './service.ts'

if (isExternal) process.stdout.write(`The tests of failed starts are left out: ${needsOwnProcess}\n`)

/** Exit code and printed lines. */
async function failedStart(env: Record<string, string>, args = ['serve']): Promise<[number | null, string[]]> {
  const { code, output } = await startCommand(args, { PORT: '0', WARDLINE_LOG_LEVEL: 'silent', ...env }).ended
  return [code, output.trim().split('\n')]
}

describe.skipIf(isExternal)(
  'a service that cannot start says why in one line, with the setting and the way out',
  () => {
    test('if the port is in use', async () => {
      const other = createServer().listen(0, '127.0.0.1')
      await new Promise((resolve) => other.once('listening', resolve))
      const { port } = other.address() as AddressInfo
      const dataDir = newDataDir()
      const [code, lines] = await failedStart({ PORT: String(port), WARDLINE_DATA_DIR: dataDir })
      other.close()
      const sentence = `Port ${port} of 127.0.0.1 is in use: stop the program that listens there, or set PORT to another port. The admin key of this database is stored in ${join(dataDir, 'admin-key')}.`
      expect([code, lines]).toEqual([1, [sentence]])
    })

    // It would go on serving its main port with a closed database, and no supervisor would restart it.
    test('if the port of decoy URLs is in use, or both ports are the same', async () => {
      const other = createServer().listen(0, '127.0.0.1')
      await new Promise((resolve) => other.once('listening', resolve))
      const { port } = other.address() as AddressInfo
      const sentence = (name: string) =>
        `Port ${port} of 127.0.0.1 is in use: stop the program that listens there, or set ${name} to another port.`
      const env = { WARDLINE_DECOY_PORT: String(port), WARDLINE_DECOY_URL: 'https://files.example.com' }
      expect(await failedStart({ ...env, WARDLINE_DATA_DIR: newDataDir() })).toEqual([
        1,
        [sentence('WARDLINE_DECOY_PORT')],
      ])
      other.close()
      await new Promise((resolve) => other.once('close', resolve))
      const [, [line]] = await failedStart({ ...env, PORT: String(port), WARDLINE_DATA_DIR: newDataDir() })
      expect(line).toContain(sentence('PORT'))
    })

    test('if the address is not local', async () => {
      const [code, lines] = await failedStart({ HOST: '192.0.2.1', WARDLINE_DATA_DIR: newDataDir() })
      expect([code, lines]).toEqual([
        1,
        [expect.stringMatching(/^HOST 192\.0\.2\.1 is not an address of this machine: /)],
      ])
    })

    const file = join(newDataDir(), 'file')
    test.each([
      ['is a file', file, 'is a file: move it, or set WARDLINE_DATA_DIR to a folder.'],
      ['lies below a file', join(file, 'data'), 'is below a file: set WARDLINE_DATA_DIR to another folder.'],
    ])('where the data folder %s', async (_what, folder, fault) => {
      writeFileSync(file, '')
      const sentence = `Invalid configuration: The data folder ${folder} ${fault}`
      expect(await failedStart({ WARDLINE_DATA_DIR: folder })).toEqual([78, [sentence]])
    })

    // The recursive mkdir of Node.js would never return there. No user can write there, not even root.
    test.runIf(existsSync('/proc/self'))('if the data folder is not writable', async () => {
      const [code, lines] = await failedStart({ WARDLINE_DATA_DIR: '/proc/wardline/data' })
      expect([code, lines]).toEqual([
        78,
        [
          expect.stringMatching(
            /^Invalid configuration: The data folder \/proc\/wardline\/data cannot be written \(E[A-Z]+\): .*WARDLINE_DATA_DIR/,
          ),
        ],
      ])
    })

    test('if nothing responds at the address of PostgreSQL, without its password', async () => {
      const env = { DATABASE_URL: 'postgres://user:hunter2@127.0.0.1:1/x', WARDLINE_DATA_DIR: newDataDir() }
      const [code, lines] = await failedStart(env)
      const sentence =
        'The database cannot be used: connect ECONNREFUSED 127.0.0.1:1: start PostgreSQL, or correct the address in DATABASE_URL.'
      expect([code, lines]).toEqual([1, [sentence]])
    })

    test('if a setting is invalid; several are listed on one line each', async () => {
      const one = await failedStart({ PORT: 'x' })
      expect(one).toEqual([78, ['Invalid configuration: PORT must be a whole number from 0 to 65535.']])
      const [code, lines] = await failedStart({ PORT: 'x', WARDLINE_RETENTION_DAYS: '0' })
      expect([code, lines]).toEqual([
        78,
        [
          'Invalid configuration:',
          expect.stringMatching(/^ {2}PORT /),
          expect.stringMatching(/^ {2}WARDLINE_RETENTION_DAYS /),
        ],
      ])
    })
  },
)

describe.skipIf(isExternal)('the log of a service that starts', () => {
  const firstLine = async (env: Record<string, string>): Promise<string> => {
    const command = startCommand(['serve'], { PORT: '0', WARDLINE_DATA_DIR: newDataDir(), ...env })
    const output = await until('a line of the log', command.output, (text) => text.includes('listening'))
    command.kill('SIGTERM')
    await command.ended
    return output.split('\n')[0]!
  }

  test('is JSON without a terminal', async () => {
    expect(JSON.parse(await firstLine({}))).toMatchObject({ level: 'info', msg: 'listening' })
  })

  test('is readable for people on request', async () => {
    const line = await firstLine({ WARDLINE_LOG_FORMAT: 'pretty' })
    expect(line).toMatch(/^\d\d:\d\d:\d\d {2}info {3}listening {2}url=http:\/\/127\.0\.0\.1:\d+ {2}dataDir=/)
  })

  test('has no other format', async () => {
    const [code, lines] = await failedStart({ WARDLINE_LOG_FORMAT: 'xml' })
    expect([code, lines]).toEqual([
      78,
      ['Invalid configuration: WARDLINE_LOG_FORMAT must be one of auto, pretty, json.'],
    ])
  })
})

describe.skipIf(isExternal)('a command on the database of this machine', () => {
  // A command that created an empty database would succeed: with a worthless backup, or a complete audit log.
  test.each([
    ['backup', 'copy.db'],
    ['audit', 'verify'],
    ['keys', 'list'],
  ])('refuses to work where there is none: %s %s', async (...args) => {
    const folder = newDataDir()
    const [code, lines] = await failedStart({ WARDLINE_DATA_DIR: folder }, args)
    const start = `No database ${join(folder, 'wardline.db')}: run this in the folder where the service runs, or set WARDLINE_DATA_DIR`
    expect([code, lines]).toEqual([78, [expect.stringContaining(start)]])
    expect(existsSync(join(folder, 'wardline.db'))).toBe(false)
  })

  test('reports the file that it cannot write', async () => {
    const folder = newDataDir()
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    const env = { WARDLINE_DATA_DIR: folder }
    expect((await failedStart(env, ['keys', 'create', '--scope', 'agent', '--instance', 'a']))[0]).toBe(0)
    expect(await failedStart(env, ['backup', '/nosuch/copy.db'])).toEqual([
      1,
      ['/nosuch/copy.db cannot be used: no such file or folder (ENOENT).'],
    ])
  })

  // The API refuses these; a laxer rule here would create a key with more rights than intended.
  test.each([
    [['--instance', '*'], 'instances.0 must be an instance id, or a prefix followed by *; * alone is refused.'],
    [['--instance', 'A'], 'instances.0 must be an instance id, or a prefix followed by *; * alone is refused.'],
    [['--instance', 'a', '--expires', 'soon'], 'expires_at must be a valid date-time.'],
    [['--instance', 'a', '--name', ' '], 'name must not be blank.'],
  ])('refuses a key with %j as the API does', async (options, sentence) => {
    const [code, lines] = await failedStart({ WARDLINE_DATA_DIR: newDataDir() }, [
      'keys',
      'create',
      '--scope',
      'agent',
      ...options,
    ])
    expect([code, lines]).toEqual([2, [sentence]])
  })

  test('names an agent key after its instances', async () => {
    const env = { WARDLINE_DATA_DIR: newDataDir() }
    const [code] = await failedStart(env, [
      'keys',
      'create',
      '--scope',
      'agent',
      '--instance',
      'a',
      '--instance',
      'b-*',
    ])
    expect(code).toBe(0)
    const { output } = await startCommand(['keys', 'list', '--json'], env).ended
    expect(JSON.parse(output).keys).toMatchObject([{ name: 'a, b-*', instances: ['a', 'b-*'] }])
  })
})
