import { generateKeyPairSync, sign } from 'node:crypto'

export interface TestCertificate {
  /** PEM. */
  key: string
  cert: string
}

/** A value of DER (X.690, section 8): tag, length, content. */
function der(tag: number, ...parts: Buffer[]): Buffer {
  const content = Buffer.concat(parts)
  const size = content.length
  const length = size < 0x80 ? [size] : size < 0x100 ? [0x81, size] : [0x82, size >> 8, size & 0xff]
  return Buffer.concat([Buffer.from([tag, ...length]), content])
}

const sequence = (...parts: Buffer[]): Buffer => der(0x30, ...parts)
const integer = (value: number): Buffer => der(0x02, Buffer.from([value]))
const hex = (text: string): Buffer => Buffer.from(text, 'hex')

/** Signs itself, and is one of 127.0.0.1 (RFC 5280, section 4.1): what trusts it, trusts a server of this test. */
export function createTestCertificate(): TestCertificate {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'prime256v1' })
  const ecdsaWithSha256 = sequence(hex('06082a8648ce3d040302'))
  const commonName = sequence(hex('0603550403'), der(0x0c, Buffer.from('test')))
  const name = sequence(der(0x31, commonName))
  const validity = sequence(...['200101000000Z', '491231235959Z'].map((time) => der(0x17, Buffer.from(time))))
  const address = der(0x87, Buffer.from([127, 0, 0, 1]))
  const alternativeName = sequence(hex('0603551d11'), der(0x04, sequence(address)))
  const toSign = sequence(
    der(0xa0, integer(2)),
    integer(1),
    ecdsaWithSha256,
    name,
    validity,
    name,
    publicKey.export({ type: 'spki', format: 'der' }),
    der(0xa3, sequence(alternativeName)),
  )
  const signature = der(0x03, Buffer.from([0]), sign('sha256', toSign, privateKey))
  const body = sequence(toSign, ecdsaWithSha256, signature).toString('base64')
  return {
    key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
    cert: `-----BEGIN CERTIFICATE-----\n${body.replaceAll(/.{64}/g, '$&\n')}\n-----END CERTIFICATE-----\n`,
  }
}
