import { generateKeyPairSync, type KeyObject, sign } from 'node:crypto'

export interface TestCertificate {
  /** PEM. */
  key: string
  cert: string
}

/** Encodes a DER value (X.690, section 8): tag, length, content. */
function der(tag: number, ...parts: Buffer[]): Buffer {
  const content = Buffer.concat(parts)
  const size = content.length
  const length = size < 0x80 ? [size] : size < 0x100 ? [0x81, size] : [0x82, size >> 8, size & 0xff]
  return Buffer.concat([Buffer.from([tag, ...length]), content])
}

const sequence = (...parts: Buffer[]): Buffer => der(0x30, ...parts)
const integer = (value: number): Buffer => der(0x02, Buffer.from([value]))
const hex = (text: string): Buffer => Buffer.from(text, 'hex')

const ecdsaWithSha256 = sequence(hex('06082a8648ce3d040302'))
const nameOf = (text: string): Buffer => sequence(der(0x31, sequence(hex('0603550403'), der(0x0c, Buffer.from(text)))))
/** Encodes a UTCTime, whose years range from 1950 to 2049. */
const utcTime = (at: number): Buffer =>
  der(
    0x17,
    Buffer.from(
      `${new Date(at)
        .toISOString()
        .replaceAll(/[-:T]|\.\d+/g, '')
        .slice(2)}`,
    ),
  )
const extension = (id: string, value: Buffer): Buffer => sequence(hex(id), der(0x04, value))
/** Extensions for a certificate of 127.0.0.1 (subjectAltName) and for an authority (basicConstraints). */
const ofLoopback = extension('0603551d11', sequence(der(0x87, Buffer.from([127, 0, 0, 1]))))
const isAuthority = extension('0603551d13', sequence(hex('0101ff')))

interface Party {
  name: string
  privateKey: KeyObject
}

interface Issued {
  name: string
  from: number
  until: number
  extensions: Buffer
}

/** Issues a certificate (RFC 5280, section 4.1), self-signed without an issuer. */
function issue({ name, from, until, extensions }: Issued, issuer?: Party): TestCertificate & Party {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'prime256v1' })
  const toSign = sequence(
    der(0xa0, integer(2)),
    integer(1),
    ecdsaWithSha256,
    nameOf(issuer?.name ?? name),
    sequence(utcTime(from), utcTime(until)),
    nameOf(name),
    publicKey.export({ type: 'spki', format: 'der' }),
    der(0xa3, sequence(extensions)),
  )
  const signature = der(0x03, Buffer.from([0]), sign('sha256', toSign, issuer?.privateKey ?? privateKey))
  const body = sequence(toSign, ecdsaWithSha256, signature).toString('base64')
  return {
    name,
    privateKey,
    key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
    cert: `-----BEGIN CERTIFICATE-----\n${body.replaceAll(/.{64}/g, '$&\n')}\n-----END CERTIFICATE-----\n`,
  }
}

const always = { from: Date.UTC(2020, 0), until: Date.UTC(2049, 0) }

/** Creates a self-signed certificate of 127.0.0.1 for servers of a test. */
export const createTestCertificate = (): TestCertificate => issue({ name: 'test', ...always, extensions: ofLoopback })

/** Creates a test authority that issues certificates of 127.0.0.1. */
export function createTestAuthority() {
  const authority = issue({ name: 'test authority', ...always, extensions: isAuthority })
  return {
    cert: authority.cert,
    issue: (from: number, until: number): TestCertificate =>
      issue({ name: 'test', from, until, extensions: ofLoopback }, authority),
  }
}
