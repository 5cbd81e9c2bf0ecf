import type { ChannelSettings, ChannelType } from '@wardline/contract'

/** An address of RFC 5737, at which nothing answers. */
export const documentedAddress = '198.51.100.7'

/** Returns settings of every kind of channel, with a canary of 8 to 32 letters and digits in each part that is secret. */
export function settingsWith(canary: string): { [Type in ChannelType]: ChannelSettings[Type] } {
  const address = `https://${documentedAddress}`
  const long = canary.repeat(4).slice(0, 32)
  const mailbox = `${canary}@example.com`
  return {
    webhook: { url: `${address}/in/${canary}`, secret: `whsec_${Buffer.from(long).toString('base64')}` },
    slack: { url: `${address}/services/${canary}` },
    discord: { url: `${address}/api/webhooks/1/${canary}` },
    teams: { url: `${address}/workflows?sig=${canary}` },
    telegram: { token: `123456:${canary}-${canary}`, chat_id: `@${canary}` },
    pagerduty: { routing_key: long },
    email: { url: `smtps://u:${canary}@${documentedAddress}`, from: mailbox, to: [mailbox] },
    ntfy: { url: `${address}/${canary}`, token: canary },
    apprise: { url: `${address}/notify/${canary}`, tags: canary },
    syslog: { url: `tls://${documentedAddress}:6514` },
    splunk: { url: `${address}:8088/${canary}`, token: canary, index: canary },
  }
}
