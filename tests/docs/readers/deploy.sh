# A checkout, and a Redis on the host that the page names.
mkdir deploy
cp -r "$ROOT/deploy/kubernetes" deploy/
redis-server --bind "$THERE"9 --port 6379 --save '' >redis.log &
until redis-cli -h "$THERE"9 ping; do sleep 0.1; done
