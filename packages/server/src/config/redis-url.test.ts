import { describe, expect, it } from 'vitest'
import { redisUrl } from './redis-url.ts'

describe('a URL of Redis', () => {
  it('names one server, the nodes of a cluster, or sentinels with a master', () => {
    expect(redisUrl('redis://u:p@a:1')).toEqual({ kind: 'one', url: 'redis://u:p@a:1' })
    expect(redisUrl('rediss://u:p@a:1,[::1]:2,c')).toEqual({
      kind: 'cluster',
      nodes: ['rediss://u:p@a:1', 'rediss://u:p@[::1]:2', 'rediss://u:p@c'],
    })
    const watched = redisUrl('redis+sentinel://u:p%25@s1,s2:5/my%20master?sentinel_password=a%26b')
    expect(watched).toMatchObject({
      kind: 'sentinel',
      name: 'my master',
      // The login of the URL is for Redis itself.
      sentinels: ['redis://:a%26b@s1:26379', 'redis://:a%26b@s2:5'],
    })
    const { masterUrl } = watched as Extract<typeof watched, { kind: 'sentinel' }>
    expect(masterUrl('10.0.0.7', 6380)).toBe('redis://u:p%25@10.0.0.7:6380')
    expect(masterUrl('fd00::7', 6380)).toBe('redis://u:p%25@[fd00::7]:6380')
  })

  it.each(['redis://', 'redis+sentinel://a:26379', 'redis://a:1,', 'http://a', 'redis://u:secret%@a,b'])(
    'is refused as %s, in a sentence that quotes nothing of it',
    (url) => {
      expect(() => redisUrl(url)).toThrow(/^must /)
      expect(() => redisUrl(url)).not.toThrow(/secret/)
    },
  )
})
