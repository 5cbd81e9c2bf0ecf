import { createHash } from 'node:crypto'
import { expect, test } from 'vitest'
import { startBetween } from './between.ts'
import { runCommand } from './command.ts'
import { newInstance } from './fleet.ts'
import { isExternal, needsOwnProcess, startService, until } from './service.ts'

if (isExternal) process.stdout.write(`The verification of signed attestations is left out: ${needsOwnProcess}\n`)

interface Item {
  [name: string]: unknown
  hash: string
  score: number
  off_chain?: { uid: string; attester: string; url: string; contract: string }
}
interface Summary {
  attestations: Item[]
}
interface File {
  sig: { uid: string; message: { data: string }; signature: { s: string } }
  signer: string
}

const stranger = '0x70997970C51812dc3A010C7d01b50e0d17dc79C8'

/** The hash of an attestation, as an attacker with the service computes it for what was changed. */
function hashAgain(item: Item): string {
  const names = ['at', 'namespace', 'period', 'score', 'summary', 'tag', 'title', 'type']
  const text = JSON.stringify(Object.fromEntries(names.map((name) => [name, item[name]])))
  return `0x${createHash('sha256').update(text).digest('hex')}`
}

test.skipIf(isExternal)('a stranger verifies the signed attestations of a service without settings', async () => {
  const service = await startService({ env: { TRUST_SNAPSHOT_SECONDS: '1' } })
  const altered = await startBetween(service.baseUrl)
  try {
    await newInstance(service)
    const { attestations } = await until(
      'a signed attestation',
      async () => (await service.call<Summary>('GET', '/api/public/trust', { key: null })).body,
      (found) => found.attestations.length > 0,
      120_000,
    )
    const { off_chain } = attestations[0]!
    const { uid, attester, url } = off_chain!
    const file = await service.call<File>('GET', url, { key: null })
    expect(file.body).toMatchObject({ signer: attester, sig: { uid, version: 2, primaryType: 'Attest' } })

    const verify = ['attest', 'verify', service.baseUrl]
    const right = await runCommand(verify, {})
    expect(right.code, right.output).toBe(0)
    expect(right.stdout).toContain(attester)
    expect(right.stdout).toContain('give the one you expect with --attester')
    const expected = await runCommand([...verify, '--attester', attester], {})
    expect([expected.code, expected.stdout.includes('--attester')]).toEqual([0, false])
    const other = await runCommand([...verify, '--attester', stranger], {})
    expect(other.code).toBe(1)
    expect(other.stdout).toContain(`it is signed by ${attester}, not by ${stranger}`)
    expect((await runCommand([...verify, '--attester', '0x1'], {})).code).toBe(64)

    /** Verifies what the service answers after a change of its summary and its files. */
    async function after(
      { summary, file }: { summary?: (item: Item) => void; file?: (changed: File) => unknown },
      ...more: string[]
    ) {
      altered.change = (text) => {
        const found = JSON.parse(text) as Summary | File
        if ('attestations' in found) summary?.(found.attestations[0]!)
        else return JSON.stringify(file?.(found) ?? found)
        return JSON.stringify(found)
      }
      const { code, stdout, stderr } = await runCommand(['attest', 'verify', altered.url, '--json', ...more], {})
      const [item] = JSON.parse(stdout).attestations
      return { code, fault: item.signature_fault, signer: item.signer, stderr }
    }
    const rewritten = (item: Item) => {
      item.score -= 1
      item.hash = hashAgain(item)
    }
    const fault = (signature_fault: unknown) => ({ code: 1, fault: signature_fault, signer: null })
    expect(await after({})).toMatchObject({ code: 0, fault: null, signer: attester })
    expect(await after({ summary: rewritten })).toMatchObject(fault('what is signed is not what is published'))
    const noHash = (item: Item) => {
      item.hash = 'none'
    }
    expect(await after({ summary: noHash })).toMatchObject(fault('what is signed is not what is published'))
    const noText = (item: Item) => {
      item.summary = '\ud800'
    }
    expect(await after({ summary: noText })).toMatchObject({ code: 1, stderr: expect.stringContaining('are invalid') })
    const named = (item: Item) => {
      item.off_chain!.attester = stranger
    }
    expect(await after({ summary: named })).toMatchObject(fault(`it is signed by ${attester}, not by ${stranger}`))
    const signed = (changed: File) => {
      changed.signer = stranger
    }
    expect(await after({ summary: named, file: signed })).toMatchObject(
      fault('what is signed is not what is published'),
    )
    const unsigned = (changed: File) => {
      changed.sig.signature.s = `0x${'1'.repeat(64)}`
    }
    expect(await after({ file: unsigned })).toMatchObject(fault(`its signature is not by ${attester}`))
    expect(await after({ file: () => ({ error: 'x' }) })).toMatchObject(
      fault('it is not an off-chain attestation of version 2'),
    )
    const unknown = (item: Item) => {
      item.off_chain!.uid = `0x${'0'.repeat(64)}`
    }
    expect(await after({ summary: unknown })).toMatchObject(fault('the service does not have it (status 404)'))

    // A service that leaves out what it cannot sign.
    const left = (item: Item) => {
      delete item.off_chain
    }
    expect(await after({ summary: left })).toMatchObject({ code: 0, fault: null, signer: null })
    expect(await after({ summary: left }, '--attester', attester)).toMatchObject({
      code: 5,
      stderr: expect.stringContaining('Not checked: 1 attestations that are not signed.'),
    })
  } finally {
    altered.close()
    await service.stop()
  }
})
