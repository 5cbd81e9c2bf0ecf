import { describe, expect, test } from 'vitest'
import { awsAccountOf } from '../../testing/aws-account.ts'
import {
  awsKeyIdBody,
  azureStorageKey,
  gitlabRoutableToken,
  isAzureStorageKey,
  isGitlabRoutableToken,
  marvin32,
} from './decoy-checksums.ts'

describe('gitlabRoutableToken', () => {
  const token = 'glpat-AAECAwQFBgcICQoLDA0OD2M6MQpvOjEKdToxCw.01.120h2srho'

  test('builds the known token from counted bytes', () => {
    expect(
      gitlabRoutableToken(
        Uint8Array.from({ length: 16 }, (_, index) => index),
        { u: 1, c: 1, o: 1 },
      ),
    ).toBe(token)
  })

  test('recognises its own checksum and no other', () => {
    expect(isGitlabRoutableToken(token)).toBe(true)
    expect(isGitlabRoutableToken(token.replace('AAEC', 'AAED'))).toBe(false)
  })
})

describe('AWS access key ids', () => {
  test('read the account of a published id', () => {
    expect(awsAccountOf('ASIAY34FZKBOKMUTVV7A')).toBe(609_629_065_308)
  })

  test('keep the account they are built from', () => {
    for (const account of [100_000_000_000, 123_456_789_012, 999_999_999_999]) {
      const body = awsKeyIdBody(account, 0x1234567890n)
      expect(body).toMatch(/^[Q-Z2-6][A-Z2-7]{15}$/)
      expect(awsAccountOf(`AKIA${body}`)).toBe(account)
    }
  })
})

describe('Azure storage keys', () => {
  test('carry the published checksum', () => {
    const published = Buffer.from(`${'a'.repeat(76)}+ASt5mnCaw==`, 'base64')
    expect(azureStorageKey(published.subarray(0, 57))).toBe(published.toString('base64'))
    expect(isAzureStorageKey(published.toString('base64'))).toBe(true)
  })

  test('are refused with one other bit or another length', () => {
    expect(isAzureStorageKey(`${'a'.repeat(75)}b+ASt5mnCaw==`)).toBe(false)
    expect(isAzureStorageKey('aaaa')).toBe(false)
  })

  test('distinguish texts of every length modulo the word size', () => {
    const sums = [0, 1, 2, 3, 4, 5].map((length) => marvin32(new Uint8Array(length), 1n))
    expect(new Set(sums).size).toBe(sums.length)
  })
})
