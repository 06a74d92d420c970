// Locks for a Java program: a session with beats, retries by request id, and the `valid` deadline. Java 17, nothing else.
//
//     HOLDTIGHT=http://127.0.0.1:7379,http://127.0.0.1:7380 TOKEN=ht_... java Session.java NAME

import java.io.IOException;
import java.net.InetAddress;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

public class Session implements AutoCloseable {
    /** A lock in hand. */
    record Lease(String text, long fence) {}

    /** The service says no. */
    static class Refused extends IOException {
        final int status;

        Refused(int status, String body) {
            super(member(body, "code") + ": " + member(body, "detail"));
            this.status = status;
        }

        /** Whether asking again may help; 502 and 504 are a proxy's own. */
        boolean passes() {
            return status >= 502 && status <= 504;
        }
    }

    private record Answer(String body, long sent) {
        /** From the moment at which the request was sent, not from the moment at which the answer came. */
        long until() {
            return sent + (long) (Double.parseDouble(member(body, "valid")) * 1e9);
        }
    }

    private static final int TTL = 15;
    private final String[] instances = System.getenv().getOrDefault("HOLDTIGHT", "http://127.0.0.1:7379").split(",");
    private final HttpClient client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1)
        .connectTimeout(Duration.ofSeconds(2)).build();
    private final ScheduledExecutorService heart = Executors.newSingleThreadScheduledExecutor(work -> {
        Thread thread = new Thread(work, "beats");
        thread.setDaemon(true);
        return thread;
    });
    private final String session;
    /** By lease, a time of System.nanoTime(): behind it the lock may be somebody else's. */
    private final Map<String, Long> deadlines = new ConcurrentHashMap<>();

    Session() throws IOException, InterruptedException {
        String about = "\"label\":\"java\",\"host\":" + text(InetAddress.getLocalHost().getHostName())
            + ",\"pid\":" + ProcessHandle.current().pid();
        Answer opened = ask("session/open", "{\"ttl\":" + TTL + "," + about + "}", inSeconds(60), 60);
        session = member(opened.body, "session");
        heart.scheduleAtFixedRate(this::beatQuietly, TTL * 1000 / 3, TTL * 1000 / 3, TimeUnit.MILLISECONDS);
    }

    /** Sends a request until it is answered. Any instance will do: the request id makes a repeated acquire safe. */
    private Answer ask(String verb, String body, long giveUp, int timeout) throws IOException, InterruptedException {
        for (int at = 0; ; at++) {
            long sent = System.nanoTime();
            HttpRequest request = HttpRequest.newBuilder(URI.create(instances[at % instances.length] + "/v1/" + verb))
                .header("Authorization", "Bearer " + System.getenv("TOKEN")).header("Content-Type", "application/json")
                .timeout(Duration.ofSeconds(timeout)).POST(HttpRequest.BodyPublishers.ofString(body)).build();
            try {
                var answer = client.send(request, BodyHandlers.ofString());
                if (answer.statusCode() < 300) return new Answer(answer.body(), sent);
                throw new Refused(answer.statusCode(), answer.body());
            } catch (IOException error) {
                boolean over = error instanceof Refused refused && !refused.passes() || System.nanoTime() - giveUp > 0;
                if (over) throw error;
            }
            Thread.sleep(100 + ThreadLocalRandom.current().nextInt(400));
        }
    }

    /** A beat renews the leases that its answer lists; it says nothing about those that are `unknown`. */
    void beat() throws IOException, InterruptedException {
        Answer answer = ask("session/beat", "{\"session\":" + text(session) + "}", inSeconds(TTL), TTL / 5); // another instance in time
        String kept = answer.body.substring(answer.body.indexOf("\"leases\":["), answer.body.indexOf("\"lost\":["));
        String lost = answer.body.substring(answer.body.indexOf("\"lost\":["), answer.body.indexOf("\"unknown\":["));
        for (String lease : leases(kept)) deadlines.computeIfPresent(lease, (text, until) -> Math.max(until, answer.until()));
        for (String lease : leases(lost)) deadlines.remove(lease);
    }

    private static List<String> leases(String list) {
        return Pattern.compile("\"lease\":\"([^\"]+)\"").matcher(list).results().map(found -> found.group(1)).toList();
    }

    private void beatQuietly() {
        try {
            beat();
        } catch (IOException | InterruptedException error) {
            // The deadlines stay where they are: `check` tells when one has passed.
        }
    }

    Lease acquire(String name, int wait) throws IOException, InterruptedException {
        String body = "{\"name\":" + text(name) + ",\"session\":" + text(session) + ",\"wait\":" + wait
            + ",\"request\":\"" + UUID.randomUUID() + "\"}";
        Answer answer = ask("acquire", body, inSeconds(wait + 60), wait + 10);
        Lease lease = new Lease(member(answer.body, "lease"), Long.parseLong(member(answer.body, "fence")));
        deadlines.put(lease.text, answer.until());
        return lease;
    }

    /** Call it before each write of the protected work. */
    void check(Lease lease) {
        Long until = deadlines.get(lease.text);
        if (until == null || System.nanoTime() - until >= 0) throw new IllegalStateException("the lock is lost");
    }

    void release(Lease lease) throws IOException, InterruptedException {
        deadlines.remove(lease.text);
        ask("release", "{\"lease\":" + text(lease.text) + ",\"again\":true}", inSeconds(60), 60);
    }

    @Override
    public void close() throws IOException, InterruptedException {
        heart.shutdownNow();
        ask("session/close", "{\"session\":" + text(session) + "}", inSeconds(60), 60);
    }

    private static long inSeconds(int seconds) {
        return System.nanoTime() + seconds * 1_000_000_000L;
    }

    private static String text(String plain) {
        return "\"" + plain.replace("\\", "\\\\").replace("\"", "\\\"") + "\"";
    }

    /** The first member of this name; Java has no JSON of its own, and answers are flat but for lists. */
    private static String member(String json, String name) {
        Matcher found = Pattern.compile("\"" + name + "\":\"?([^,\"}\\]]*)").matcher(json);
        return found.find() ? found.group(1) : "";
    }

    public static void main(String[] words) throws Exception {
        try (Session session = new Session()) {
            Lease lease = session.acquire(words.length > 0 ? words[0] : "example", 30);
            session.check(lease);
            System.out.println("fence " + lease.fence);
            session.beat();
            session.check(lease);
            session.release(lease);
        }
    }
}
