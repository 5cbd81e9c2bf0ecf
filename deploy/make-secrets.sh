#!/bin/sh
# Makes the secrets of the profile `scale` in deploy/secrets, once: every one random, none with a default.
# Keep a copy of that folder apart from the backups of the database.
set -eu
cd "$(dirname "$0")"
umask 077

if [ -e secrets ]; then
  echo 'deploy/secrets is there already; nothing was changed.' >&2
  exit 1
fi

# 256 bits, in letters that need no quoting in a URL.
random() {
  head -c 32 /dev/urandom | base64 | tr '+/' '-_' | tr -d '=\n'
}

hash() {
  if command -v sha256sum > /dev/null; then
    printf '%s' "$1" | sha256sum
  else
    printf '%s' "$1" | shasum -a 256
  fi | cut -d ' ' -f 1
}

rm -rf secrets.new
mkdir secrets.new
postgres=$(random)
redis=$(random)
redis_agent=$(random)
random > secrets.new/wardline-secret
random > secrets.new/wardline-api-key
random > secrets.new/postgres-superuser-password
printf '%s' "$postgres" > secrets.new/postgres-password
printf 'postgres://wardline:%s@postgres:5432/wardline' "$postgres" > secrets.new/database-url
printf 'redis://wardline:%s@redis:6379' "$redis" > secrets.new/backplane-url
printf '%s' "$redis_agent" > secrets.new/redis-agent-password
sed -e '/^#/d' -e "s/SERVICE_PASSWORD_SHA256/$(hash "$redis")/" -e "s/AGENT_PASSWORD_SHA256/$(hash "$redis_agent")/" \
  redis-users.acl > secrets.new/redis-users

# The users in containers are not the one of this machine, so the files are readable; the folder above them is not.
chmod 0444 secrets.new/*
mv secrets.new secrets
echo 'deploy/secrets is made. The first key for people is in deploy/secrets/wardline-api-key.'
