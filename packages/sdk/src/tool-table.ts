/** What a tool call does. `send` passes something on to people or other systems, `request` uses the network otherwise. */
export type CallAction = 'read' | 'write' | 'execute' | 'request' | 'send' | 'other'

/**
 * How tool calls are read, in one table for all clients: `npm run docs` copies it into clients/python/wardline.py.
 * All in lower case; names of tools and arguments without `_`, `-` and other signs. tool-names.test.ts has the names that
 * coding agents and MCP servers use, with their actions.
 */
export const toolTable = {
  /**
   * Tools that their words would misread, by the whole name, or by two and more words at its end: `websearch` is also
   * `brave_web_search`. Of those under `method`, an argument such as `command` or `action` says what the call does.
   */
  tools: {
    read: 'cat head tail bashoutput commandstatus fetchrules lsp pgquery executesql runquery runsqlquery notionfetch postsearch postdatabasequery gitbranch conversationsreplies conversationsunreads echo type info hget hgetall hexists lrange llen smembers zrange xrange dbsize scankeys',
    write:
      'multiedit reapply searchreplace postpage savememory hset hdel lpush rpush lpop rpop lrem del expire sadd srem zadd zrem xadd xdel croncreate crondelete',
    execute: 'writestdin createandruntask',
    request:
      'webfetch websearch websearchpreview webrun searchweb googlesearch bravesearch tavilysearch duckduckgosearch exasearch newpage navigatepage gitpull gitclone browsernavigate',
    send: 'sharelink artifact',
    other:
      'task agent skill todowrite todoread writetodos managetodolist taskcreate taskget tasklist taskoutput taskstop taskupdate updateplan updatetopic enterplanmode exitplanmode askuserquestion askuser requestuserinput slashcommand killshell killbash toolsearch sequentialthinking spawnagent sendinput runsubagent newtask computer computeruse computerusepreview',
    method:
      'strreplaceeditor strreplacebasededittool texteditor texteditorcodeexecution memory copilotmemory managek8sresource',
  },
  /** Actions by the first of these words in the name of any other tool. */
  verbs: {
    read: 'read get list ls search find view open load show query lookup describe stat count glob grep check retrieve inspect explain aggregate analyze validate verify discover whoami',
    write:
      'write create edit update upsert delete remove move rename save put patch insert append set add copy modify mkdir truncate drop replace reserve cancel reschedule apply assign unassign attach detach merge rebase reset restore approve archive enable disable install uninstall scale mark resolve dismiss transition pause promote import migrate scaffold',
    execute: 'exec execute run eval evaluate spawn retry trigger invoke',
    request: 'fetch browse navigate curl wget crawl scrape download click fill hover',
    send: 'send post reply notify publish upload share invite forward push tweet pay transfer submit broadcast',
  },
  /** The same for words that also name things, in names without a verb. */
  nouns: {
    read: 'log logs status diff details summary schema history stats metadata tree contents snapshot screenshot docs select',
    write: 'book schedule exchange return draft commit checkout deploy branch tag label link store star fork pin clone',
    execute: 'shell bash terminal command cmd sandbox script powershell python repl code',
    request: 'browser puppeteer playwright web website url http https request requests api',
    send: 'mail email message sms comment',
  },
  /** Names that create or change one of these objects, which they end with (also with an s), pass something on. */
  sending: {
    verbs: 'write create edit update save add',
    objects:
      'comment note reply message mail email invitation issue ticket request review discussion thread gist body webhook refund payout charge payment',
  },
  /** Arguments by what they hold; of paths, addresses, hosts and commands also by the last word of their name. */
  arguments: {
    path: 'path paths file files filepath filepaths filename filenames directory directories dir folder folders notebook workspace dirpath repopath',
    /** Only if the value looks like a path. */
    maybePath:
      'source src destination dest target root input output from cwd workdir uri image attachment attachments include',
    address: 'url urls uri uris href link links endpoint webhook origin remote website site page server',
    host: 'host hosts hostname hostnames domain domains ip ipaddress',
    /** Addresses of mail: their domain is the host. */
    mail: 'to cc bcc recipient recipients torecipients ccrecipients bccrecipients email emails emailaddress mailto participants attendees address',
    command: 'command commands cmd cmdline commandline script argv',
    /** Commands only if the tool executes. */
    code: 'code program input chars function expression',
    /** Texts with the paths of a patch. */
    patch: 'patch diff input',
    /** Texts in which a model passes addresses to fetch. */
    prompt: 'prompt',
    /** SQL, which writes if it has such a statement. */
    statement: 'sql query statement statements',
    method: 'command action method operation',
  },
  programs: {
    /** They start the program that follows them, also after their options. */
    starting:
      'sudo doas env nohup time timeout nice stdbuf xargs exec command watch setsid busybox bash sh zsh dash ksh eval powershell pwsh cmd if then elif else while until do ! {',
    /** After them, a name without a sign of a path is a file. */
    files:
      'cat less more head tail tac nl cp mv rm ln tar zip gzip base64 xxd od strings grep egrep rg sed awk cut sort source . nano vim vi code tee touch chmod chown shred dd scp rsync open type get-content gc gpg openssl ssh-add diff wc file stat',
    /** After them, a name with a dot or a port is a host. */
    network:
      'curl wget http https xh nc ncat netcat socat ssh scp sftp rsync ftp tftp telnet ping dig nslookup host openssl aria2c lynx invoke-webrequest iwr invoke-restmethod irm nmap traceroute mail mailx mutt sendmail msmtp swaks',
    /** Of them, those whose argument is a host, even if its name has one label: `curl evil`. */
    reaching: 'curl wget nc ncat netcat ssh telnet ftp ping nslookup lynx nmap traceroute',
    /** After them, a name before a colon is a host, as in `host:file`. */
    copying: 'scp rsync sftp',
    /** Options that a file follows. */
    fileOptions:
      '-o -O -T -i -K -c -b -E -F --output --upload-file --config --cookie --cookie-jar --cert --key --cacert --post-file --body-file -InFile -OutFile',
    /** Options that no file follows, after their program. */
    flags: 'curl-i curl-O',
  },
  paths: {
    /** Parts of paths that may hold secrets: these are reported first, so that others cannot push them out. */
    notable:
      '.env .ssh .aws .gnupg .kube .docker .netrc .pgpass .npmrc .pypirc .git-credentials .bash_history .claude .cursor .codex id_ credential secret passw shadow token private .pem .key .p12 .pfx keystore wallet crontab authorized_keys',
  },
} as const
