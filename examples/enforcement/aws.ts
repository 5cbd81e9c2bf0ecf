// An enforcement point that denies everything to the IAM role of a suspended agent, in all its sessions.
//
//   WARDLINE_ENFORCEMENT_SECRET=whsec_… AWS_ACCESS_KEY_ID=… AWS_SECRET_ACCESS_KEY=… IDENTITIES=… \
//     npm run example -- enforcement aws
//
// IDENTITIES lists names of roles, one for each agent. The receiver attaches the managed policy AWSDenyAll, which holds
// for open sessions and new ones; aws:TokenIssueTime would let the agent assume the role again. Its key needs
// iam:ListAttachedRolePolicies, and iam:AttachRolePolicy and iam:DetachRolePolicy for this policy only, so that the key
// cannot give permissions to a role. A role must have a free place among its managed policies.

import { serveIdentities } from './identities.ts'
import { type AwsKey, signed } from './sigv4.ts'
import { exchange, Refusal, secret, setting } from './verify.ts'

/** IAM has one endpoint for all regions of a partition. Other partitions: AWS_IAM_URL, AWS_REGION and AWS_PARTITION. */
const url = setting('AWS_IAM_URL', 'https://iam.amazonaws.com/')
const region = setting('AWS_REGION', 'us-east-1')
const denyAll = `arn:${setting('AWS_PARTITION', 'aws')}:iam::aws:policy/AWSDenyAll`
const host = new URL(url).host

const awsKey = (): AwsKey => ({
  id: setting('AWS_ACCESS_KEY_ID'),
  secret: secret('AWS_SECRET_ACCESS_KEY'),
  ...(process.env.AWS_SESSION_TOKEN ? { sessionToken: process.env.AWS_SESSION_TOKEN } : {}),
})

/** Calls an action of IAM; resolves with the XML. https://docs.aws.amazon.com/IAM/latest/APIReference */
async function iam(action: string, role: string, parameters: Record<string, string>): Promise<string> {
  if (!/^[\w+=,.@-]{1,64}$/.test(role)) throw new Error('IDENTITIES must list names of roles, not their ARN')
  const body = new URLSearchParams({ Action: action, Version: '2010-05-08', RoleName: role, ...parameters })
  const headers = signed({ host, region, service: 'iam', body: body.toString() }, awsKey(), Date.now())
  const target = { url, method: 'POST', headers, body }
  const answer = await exchange(target)
  if (answer.status === 200) return answer.text
  const refusal = new Refusal(target, answer)
  // Such as NoSuchEntity, AccessDenied or Throttling: AWS answers most of them with the same status.
  const code = /<Code>([A-Za-z.]{1,64})<\/Code>/.exec(answer.text)?.[1]
  if (code !== undefined) refusal.message += ` ${code} (${action})`
  throw refusal
}

serveIdentities({
  async isDisabled(role) {
    let marker: string | undefined
    do {
      const page = await iam('ListAttachedRolePolicies', role, marker === undefined ? {} : { Marker: marker })
      if (page.includes(`<PolicyArn>${denyAll}</PolicyArn>`)) return true
      // IAM may cut a list at any length.
      marker = /<IsTruncated>true</.test(page) ? /<Marker>([^<]+)<\/Marker>/.exec(page)?.[1] : undefined
    } while (marker !== undefined)
    return false
  },
  async disable(role) {
    await iam('AttachRolePolicy', role, { PolicyArn: denyAll })
  },
  async enable(role) {
    await iam('DetachRolePolicy', role, { PolicyArn: denyAll })
  },
})
